"""Datasets by name, for the flag --dataset_name of the image classifier."""

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
    """Returns a split, such as "train" or "test", of one of DATASETS.

    The folder is None for a dataset without files. The pattern is that of the file names with `%s`
    for the split, if the dataset takes one.

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
