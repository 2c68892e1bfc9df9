"""Datasets in TFRecord files of `tf.train.Example`s: any folder of them, and ImageNet.

A record holds one image, in the features `image/encoded` (JPEG, PNG, GIF or BMP) and
`image/class/label`, as the tools of ImageNet and of slim write them. The file labels.txt of a
folder has a line `0:name` for each class. Records are counted without reading the images.

Reference for ImageNet: Russakovsky et al. (2015), "ImageNet large scale visual recognition
challenge", arXiv 1409.0575.
"""

import glob
import os
import re
import struct
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from examples.slim.datasets.dataset import ImageDataset
from examples.slim.datasets.records import record_dataset
from examples.slim.datasets.splits import check_split, required_folder

Tensor = Any

IMAGENET_SIZES = {"train": 1_281_167, "validation": 50_000}
IMAGENET_CLASSES = 1001  # Label 0 is the background. No image has it.
LABELS_FILE = "labels.txt"
_LENGTH_BYTES, _CHECKSUM_BYTES = 8, 4


def tfrecords(
    split_name: str, dataset_dir: str | None, file_pattern: str | None = None
) -> ImageDataset:
    """Returns the dataset in a folder of TFRecord files.

    Args:
      split_name: Name of the split.
      dataset_dir: Folder of the files and of labels.txt.
      file_pattern: Pattern of the file names, with `%s` for the split. None means all names that
        contain the split as a word, except those that end with .txt.

    Raises:
      ValueError: There is no such folder, file or labels.txt, or one of them is damaged.
    """
    folder = required_folder("tfrecords", dataset_dir)
    paths = _find(folder, split_name, file_pattern)
    num_classes = _count_classes(os.path.join(folder, LABELS_FILE))
    return record_dataset(
        "tfrecords",
        split_name,
        paths,
        tf.data.TFRecordDataset,
        decode_example,
        sum(map(count_records, paths)),
        num_classes,
        {"image": "A colour image of any size.", "label": f"0 to {num_classes - 1}."},
    )


def imagenet(
    split_name: str, dataset_dir: str | None, file_pattern: str | None = None
) -> ImageDataset:
    """Returns ImageNet's 1,000 classes of 2012, as `train-00000-of-01024` and so on.

    Labels are 1 to 1000; a network without a class for the background needs `labels_offset=1`.

    Args:
      split_name: "train" or "validation".
      dataset_dir: Folder of the files.
      file_pattern: As for `tfrecords`; None means `train-*` or `validation-*`. With a pattern the
        records are counted; without one the files must be complete.

    Raises:
      ValueError: There is no such split, folder or file.
    """
    check_split("imagenet", split_name, tuple(IMAGENET_SIZES))
    folder = required_folder("imagenet", dataset_dir)
    paths = _find(folder, split_name, file_pattern or "%s-?????-of-?????")
    size = sum(map(count_records, paths)) if file_pattern else IMAGENET_SIZES[split_name]
    return record_dataset(
        "imagenet",
        split_name,
        paths,
        tf.data.TFRecordDataset,
        decode_example,
        size,
        IMAGENET_CLASSES,
        {"image": "A colour image of any size.", "label": "1 to 1000; 0 is the background."},
    )


def decode_example(record: Tensor) -> tuple[Tensor, Tensor]:
    """Decodes a serialized `tf.train.Example`, string [], to an image and its label, int64 [].

    The image is uint8 [height, width, 3], or the first frame of an animation.
    """
    features = tf.io.parse_single_example(
        record,
        {
            "image/encoded": tf.io.FixedLenFeature([], tf.string),
            "image/class/label": tf.io.FixedLenFeature([], tf.int64),
        },
    )
    image = tf.io.decode_image(features["image/encoded"], channels=3, expand_animations=False)
    image.set_shape([None, None, 3])
    return image, features["image/class/label"]


def count_records(path: str) -> int:
    """Counts the records of a TFRecord file by their lengths, without reading them.

    Raises:
      ValueError: The file cannot be read, is empty, or ends within a record.
    """
    count = position = 0
    try:
        size = os.path.getsize(path)
        with open(path, "rb") as file:
            while position < size:
                file.seek(position)
                length = file.read(_LENGTH_BYTES).ljust(_LENGTH_BYTES, b"\xff")
                (payload,) = struct.unpack("<Q", length)
                position += _LENGTH_BYTES + _CHECKSUM_BYTES + payload + _CHECKSUM_BYTES
                count += 1
    except OSError as error:
        raise ValueError(f"Cannot read {path}: {error.strerror}.") from error
    if position != size or not count:
        raise ValueError(
            f"Cannot read {path}: it has {size} bytes, which are not whole records; record "
            f"{count} would end at byte {position}. Expected an uncompressed TFRecord file."
        )
    return count


def _find(folder: str, split_name: str, file_pattern: str | None) -> Sequence[str]:
    """Returns the files of a split, sorted.

    Raises:
      ValueError: There are none.
    """
    names = (file_pattern or "*%s*").replace("%s", glob.escape(split_name))
    found = sorted(glob.glob(os.path.join(glob.escape(folder), names)))
    if file_pattern is None:
        word = re.compile(rf"(?<![A-Za-z0-9]){re.escape(split_name)}(?![A-Za-z0-9])")
        names_of_it = (path for path in found if word.search(os.path.basename(path)))
        found = [path for path in names_of_it if not path.endswith(".txt")]
    if not found:
        raise ValueError(
            f"{folder} has no files of split {split_name!r} (looked for {names}). Correct "
            "--dataset_dir or --dataset_split_name."
        )
    return found


def _count_classes(path: str) -> int:
    """Returns one more than the highest number in a file of lines `number:name`."""
    try:
        with open(path, encoding="utf-8") as file:
            numbers = [int(line.partition(":")[0]) for line in file if line.strip()]
    except (OSError, ValueError) as error:
        raise ValueError(
            f"Cannot read {path}: {error}. A folder of TFRecord files needs it: a line such as "
            "0:daisy for each class."
        ) from error
    if not numbers or min(numbers) < 0:
        raise ValueError(f"{path} must have a line such as 0:daisy for each class; it has none.")
    return max(numbers) + 1
