"""Datasets by name: what the flag --dataset_name of the image classifier accepts."""

from collections.abc import Callable, Mapping
from types import MappingProxyType

from examples.slim.datasets.cifar10 import cifar10
from examples.slim.datasets.dataset import ImageDataset
from examples.slim.datasets.digits import digits, mnist_idx
from examples.slim.datasets.tfrecords import imagenet, tfrecords

DATASETS: Mapping[str, Callable[..., ImageDataset]] = MappingProxyType(
    {
        "cifar10": cifar10,
        "digits": digits,
        "imagenet": imagenet,
        "mnist": mnist_idx,
        "tfrecords": tfrecords,
    }
)
"""Name -> function of (split_name, dataset_dir, file_pattern)."""


def get_dataset(
    name: str, split_name: str, dataset_dir: str | None, file_pattern: str | None = None
) -> ImageDataset:
    """Returns a part of a dataset.

    Args:
      name: One of DATASETS.
      split_name: Of the part, such as "train" or "test".
      dataset_dir: Folder of its files; None for data that needs no files.
      file_pattern: Of the names of its files, where a dataset takes one, with `%s` for the split.

    Raises:
      ValueError: The name is unknown, the dataset has no such split, or its files are missing or
        damaged.
    """
    if name not in DATASETS:
        raise ValueError(
            f"Unknown dataset {name!r}; known are {', '.join(DATASETS)}. Your own images can be "
            "read as tfrecords."
        )
    return DATASETS[name](split_name, dataset_dir, file_pattern)
