"""Datasets that are arrays in memory.

The pipeline passes row numbers only, so that a checkpoint can store its position in the shuffled
order. Small arrays are constants of the graph. Python looks up the rows of large arrays, which
works only in the process that runs the graph. `digits.py` and `cifar10.py` load the arrays.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from examples.slim.datasets.dataset import Elements, ImageDataset, Reading

Tensor = Any

IN_GRAPH_BYTES = 2**20
"""Images that take more are not made constants of the graph."""


def array_dataset(
    name: str,
    split_name: str,
    images: np.ndarray,
    labels: np.ndarray,
    num_classes: int,
    items_to_descriptions: Mapping[str, str],
) -> ImageDataset:
    """Makes a dataset of arrays.

    Images are uint8, [count, height, width, channels]; labels are whole numbers from 0 to
    num_classes - 1, [count].
    """

    def elements(reading: Reading) -> Elements:
        rows = tf.data.Dataset.range(len(labels)).shard(reading.num_shards, reading.shard_index)
        if reading.training:
            rows = rows.shuffle(len(labels), seed=reading.seed).repeat()
        return rows

    def decode_constants(row: Tensor) -> tuple[Tensor, Tensor]:
        return tf.constant(images)[row], tf.constant(labels, tf.int64)[row]

    def decode_arrays(row: Tensor) -> tuple[Tensor, Tensor]:
        image, label = tf.numpy_function(
            lambda i: (images[i], np.int64(labels[i])), [row], (tf.uint8, tf.int64), stateful=False
        )
        image.set_shape(images.shape[1:])
        label.set_shape([])
        return image, label

    is_small = images.nbytes <= IN_GRAPH_BYTES
    return ImageDataset(
        name=name,
        split_name=split_name,
        num_samples=len(labels),
        num_classes=num_classes,
        items_to_descriptions=items_to_descriptions,
        in_memory=True,
        runs_python=not is_small,
        elements=elements,
        decode=decode_constants if is_small else decode_arrays,
    )
