"""ImageDataset: what a program has to know of a set of labelled images, wherever they come from.

Owns the two types that the datasets of this folder have in common. `arrays.py` makes them from
arrays in memory, `records.py` from files; `factory.py` finds one by name. Preprocessing, batches
and models are no part of it.
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
      training: Endless and shuffled, or everything once and in order.
      seed: Of the order.
      num_readers: Files that are read at the same time.
      shuffle_buffer: Examples among which the next one is drawn; data in memory is shuffled whole.
      num_shards: Processes that share the dataset, each of which reads a part of its own.
      shard_index: Number of this process among them, from 0.
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
      name: Of the dataset, such as "mnist".
      split_name: Of the part, such as "train".
      num_samples: Images in it.
      num_classes: Labels are below that.
      items_to_descriptions: Descriptions of "image" and "label".
      in_memory: True if its elements are small numbers of rows, so that a checkpoint can hold a
        shuffle buffer of them.
      runs_python: True if `decode` calls back into Python, which a server that was started
        elsewhere cannot do.
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
