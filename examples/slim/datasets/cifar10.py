"""CIFAR-10: 60,000 colour images of 32x32 pixels, from the files of its authors.

tf.data reads the binary version during training. `cifar10_pickles.py` loads the Python version into
memory. Reference: Krizhevsky (2009), "Learning multiple layers
of features from tiny images".
"""

import os
from typing import Any

import numpy as np
import tensorflow as tf

from examples.slim.datasets.arrays import array_dataset
from examples.slim.datasets.cifar10_pickles import read_batch
from examples.slim.datasets.dataset import Elements, ImageDataset
from examples.slim.datasets.records import record_dataset
from examples.slim.datasets.splits import check_no_pattern, check_split, required_folder

Tensor = Any

FILES = {"train": [f"data_batch_{number}" for number in range(1, 6)], "test": ["test_batch"]}
CLASSES = 10
SIDE, CHANNELS = 32, 3
PIXELS = CHANNELS * SIDE * SIDE
_FOLDERS = ("", "cifar-10-batches-bin", "cifar-10-batches-py")
_DESCRIPTIONS = {
    "image": "A colour image, [32 x 32 x 3].",
    "label": "0 to 9: airplane, automobile, bird, cat, deer, dog, frog, horse, ship, truck.",
}


def cifar10(
    split_name: str, dataset_dir: str | None, file_pattern: str | None = None
) -> ImageDataset:
    """Returns CIFAR-10: "train" has 50,000 images, "test" 10,000.

    Args:
      split_name: One of FILES.
      dataset_dir: Folder of `data_batch_1.bin` … `test_batch.bin`, or of the same names without
        .bin, the Python version; or the parent of that folder, as the archives are unpacked.
      file_pattern: Must be None: the files have fixed names.

    Raises:
      ValueError: There is no such split, there is a pattern, or files are missing or damaged.
    """
    check_split("cifar10", split_name, tuple(FILES))
    check_no_pattern("cifar10", file_pattern)
    folder = required_folder("cifar10", dataset_dir)
    for ending, make in ((".bin", _binary), ("", _in_memory)):
        names = [name + ending for name in FILES[split_name]]
        for inner in _FOLDERS:
            paths = [os.path.join(folder, inner, name) for name in names]
            if all(map(os.path.isfile, paths)):
                return make(split_name, paths)
    wanted = ", ".join(f"{name}.bin" for name in FILES[split_name])
    raise ValueError(
        f"Cannot load CIFAR-10: {folder} does not have all of {wanted} (or these without .bin). "
        "Unpack cifar-10-binary.tar.gz there, or correct --dataset_dir."
    )


def _binary(split_name: str, paths: list[str]) -> ImageDataset:
    """Returns a dataset of records: one byte for the label, then the pixels by channel."""
    return record_dataset(
        "cifar10",
        split_name,
        paths,
        _open,
        _decode,
        sum(map(_count, paths)),
        CLASSES,
        _DESCRIPTIONS,
    )


def _open(path: Tensor) -> Elements:
    return tf.data.FixedLengthRecordDataset(path, 1 + PIXELS)


def _decode(record: Tensor) -> tuple[Tensor, Tensor]:
    content = tf.io.decode_raw(record, tf.uint8)
    image = tf.reshape(content[1 : 1 + PIXELS], [CHANNELS, SIDE, SIDE])
    return tf.transpose(image, [1, 2, 0]), tf.cast(content[0], tf.int64)


def _count(path: str) -> int:
    """Returns the number of records in a file.

    Raises:
      ValueError: The file does not consist of whole records.
    """
    size = os.path.getsize(path)
    if not size or size % (1 + PIXELS):
        raise ValueError(
            f"Cannot read {path}: {size} bytes, expected a multiple of {1 + PIXELS}, a label and "
            "an image. Is the file truncated?"
        )
    return size // (1 + PIXELS)


def _in_memory(split_name: str, paths: list[str]) -> ImageDataset:
    batches = [read_batch(path, PIXELS) for path in paths]
    images = np.concatenate([batch.images for batch in batches])
    labels = np.concatenate([batch.labels for batch in batches])
    if labels.max() >= CLASSES:
        raise ValueError(f"Cannot use {paths[0]} ...: a label {labels.max()}, expected 0 to 9.")
    images = images.reshape(-1, CHANNELS, SIDE, SIDE).transpose(0, 2, 3, 1)
    return array_dataset("cifar10", split_name, images, labels, CLASSES, _DESCRIPTIONS)
