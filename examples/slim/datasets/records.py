"""Datasets in files of records, which several readers read at the same time.

Owns the order. The files are divided among processes and shuffled. Several files are read in turn,
and their records pass a shuffle buffer. The order does not depend on the number of threads.
`tfrecords.py` and `cifar10.py` decode the records.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import tensorflow as tf

from examples.slim.datasets.dataset import Elements, ImageDataset, Reading

Tensor = Any


def record_dataset(
    name: str,
    split_name: str,
    paths: Sequence[str],
    open_file: Callable[[Tensor], Elements],
    decode: Callable[[Tensor], tuple[Tensor, Tensor]],
    num_samples: int,
    num_classes: int,
    items_to_descriptions: Mapping[str, str],
) -> ImageDataset:
    """Makes a dataset of files, at least one, whose paths are in order.

    `open_file` maps a path, string [], to a tf.data.Dataset of its records, each string [].
    `num_samples` counts the records in all files.
    """

    def elements(reading: Reading) -> Elements:
        return _records(paths, open_file, reading)

    return ImageDataset(
        name=name,
        split_name=split_name,
        num_samples=num_samples,
        num_classes=num_classes,
        items_to_descriptions=items_to_descriptions,
        in_memory=False,
        runs_python=False,
        elements=elements,
        decode=decode,
    )


def _records(
    paths: Sequence[str], open_file: Callable[[Tensor], Elements], reading: Reading
) -> Elements:
    """Divides whole files among processes if there are enough of them, else single records."""
    files = tf.data.Dataset.from_tensor_slices(list(paths))
    by_file = len(paths) >= reading.num_shards
    if by_file:
        files = files.shard(reading.num_shards, reading.shard_index)
    if not reading.training:
        records = files.flat_map(open_file)
        return records if by_file else records.shard(reading.num_shards, reading.shard_index)
    files = files.shuffle(len(paths), seed=reading.seed)
    records = files.interleave(
        open_file,
        cycle_length=reading.num_readers,
        num_parallel_calls=reading.num_readers,
        deterministic=True,
    )
    if not by_file:
        records = records.shard(reading.num_shards, reading.shard_index)
    return records.shuffle(reading.shuffle_buffer, seed=reading.seed).repeat()
