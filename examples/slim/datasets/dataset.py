"""ImageDataset: labelled images in a common form, from files or memory.

Owns the two types that all datasets of this folder share. `arrays.py` makes datasets of arrays in
memory, `records.py` of files. `factory.py` finds a dataset by its name. This module knows nothing
of preprocessing, batches and models.
"""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

Tensor = Any
Elements = Any
"""A tf.data.Dataset of elements that `ImageDataset.decode` understands."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Reading:
    """Settings for reading a dataset in one process.

    Attributes:
      training: True for endless, shuffled data; False for all data once, in order.
      seed: Seed of the order.
      num_readers: Number of files that are read at the same time.
      shuffle_buffer: Examples in the shuffle buffer. Data in memory is shuffled as a whole.
      num_shards: Number of processes that share the dataset. Each reads its own part.
      shard_index: Index of this process among them, from 0.
    """

    training: bool
    seed: int = 0
    num_readers: int = 1
    shuffle_buffer: int = 1000
    num_shards: int = 1
    shard_index: int = 0


@dataclasses.dataclass(frozen=True, kw_only=True)
class ImageDataset:
    """A set of labelled images.

    Attributes:
      name: Name of the dataset, such as "mnist".
      split_name: Name of the split, such as "train".
      num_samples: Number of images.
      num_classes: Number of classes. Labels are smaller.
      items_to_descriptions: Descriptions of "image" and "label".
      in_memory: True if the elements are row numbers, which are so small that a checkpoint can
        hold the shuffle buffer.
      runs_python: True if `decode` calls Python, which a server in another process cannot do.
      elements: Returns the elements that a process reads, still encoded.
      decode: Element -> (image, uint8 [height, width, channels], label, int64 []).
    """

    name: str
    split_name: str
    num_samples: int
    num_classes: int
    items_to_descriptions: Mapping[str, str]
    in_memory: bool
    runs_python: bool
    elements: Callable[[Reading], Elements]
    decode: Callable[[Tensor], tuple[Tensor, Tensor]]
