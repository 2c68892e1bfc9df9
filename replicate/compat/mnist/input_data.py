"""The MNIST digits, from IDX files that are there: nothing is downloaded.

Format: http://yann.lecun.com/exdb/mnist, "File formats".
"""

import gzip
import os
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

_FILES = {
    "train": ("train-images-idx3-ubyte", "train-labels-idx1-ubyte"),
    "test": ("t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"),
}
_IMAGES, _LABELS = 2051, 2049
CLASSES = 10


class Datasets(NamedTuple):
    """Three parts of the digits. Those to validate on are the first of the training file."""

    train: "DataSet"
    validation: "DataSet"
    test: "DataSet"


class DataSet:
    """Images with their labels, given in batches."""

    def __init__(
        self,
        images: Any,
        labels: Any,
        fake_data: bool = False,
        one_hot: bool = False,
        dtype: Any = tf.float32,
        reshape: bool = True,
        seed: int | None = None,
    ) -> None:
        """Scales the images.

        Args:
          images: uint8, [images, rows, columns, 1].
          labels: [images], or [images, 10] with ones.
          fake_data: Must be False.
          one_hot: Has no effect: labels are given as they are.
          dtype: float32 for values in [0, 1], uint8 for values in [0, 255].
          reshape: True for images [images, pixels].
          seed: Seed of NumPy's own random numbers, which give the order of batches. None for the
            seed of the default graph; NumPy's numbers go on if that has none.

        Raises:
          ValueError: The counts differ, or fake_data is True.
          TypeError: The type is another one.
        """
        del one_hot
        dtype = tf.as_dtype(dtype)
        if fake_data:
            raise ValueError("DataSet got fake_data=True, but gives real digits only.")
        if dtype not in (tf.uint8, tf.float32):
            raise TypeError(f"DataSet takes dtype uint8 or float32, got {dtype.name}.")
        if len(images) != len(labels):
            raise ValueError(f"DataSet got {len(images)} images and {len(labels)} labels.")
        images = images.reshape(len(images), -1) if reshape else images
        scaled = dtype == tf.float32
        self._images = images.astype("f4") * np.float32(1 / 255) if scaled else images
        self._labels = labels
        _seed(seed)
        self._epochs = 0
        self._next = 0

    @property
    def images(self) -> Any:
        """All images, in the order of the last epoch."""
        return self._images

    @property
    def labels(self) -> Any:
        """All labels, in the order of the last epoch."""
        return self._labels

    @property
    def num_examples(self) -> int:
        """Number of images."""
        return len(self._images)

    @property
    def epochs_completed(self) -> int:
        """Number of times that all images were given."""
        return self._epochs

    def next_batch(
        self, batch_size: int, fake_data: bool = False, shuffle: bool = True
    ) -> tuple[Any, Any]:
        """Returns the next images and labels; a batch may begin in one epoch and end in the next.

        `shuffle` gives each epoch in a random order.
        """
        del fake_data
        if self._next == 0 and self._epochs == 0 and shuffle:
            self._shuffle()
        rest = self._images[self._next :], self._labels[self._next :]
        if self._next + batch_size <= self.num_examples:
            self._next += batch_size
            return rest[0][:batch_size], rest[1][:batch_size]
        self._epochs += 1
        if shuffle:
            self._shuffle()
        self._next = batch_size - len(rest[0])
        first = self._images[: self._next], self._labels[: self._next]
        return tuple(np.concatenate(each) for each in zip(rest, first, strict=True))  # type: ignore[return-value]

    def _shuffle(self) -> None:
        order = np.random.permutation(self.num_examples)
        self._images, self._labels = self._images[order], self._labels[order]


def _seed(seed: int | None) -> None:
    """Seeds NumPy, whose own random numbers order the batches: programs seed these themselves."""
    given = tf.compat.v1.get_default_graph().seed if seed is None else seed
    if given is not None:
        np.random.seed(given)


def read_data_sets(
    train_dir: str,
    fake_data: bool = False,
    one_hot: bool = False,
    dtype: Any = tf.float32,
    reshape: bool = True,
    validation_size: int = 5000,
    seed: int | None = None,
    source_url: str = "",
) -> Datasets:
    """Reads the four files of the digits, with ".gz" at the end of their names or without.

    Args:
      train_dir: Folder of the files.
      fake_data: Must be False.
      one_hot: True for labels [images, 10] with ones.
      dtype: As for `DataSet`, like the next one.
      reshape: True for images [images, pixels].
      validation_size: Number of training images that are kept for validation.
      seed: As for `DataSet`.
      source_url: Not used: nothing is downloaded.

    Returns:
      The three parts.

    Raises:
      FileNotFoundError: A file is not there.
      ValueError: validation_size is out of range, or a file has another format.
    """
    del source_url
    (images, labels), (test_images, test_labels) = (
        [_read(train_dir, name, one_hot) for name in names] for names in _FILES.values()
    )
    if not 0 <= validation_size <= len(images):
        raise ValueError(f"validation_size must be in [0, {len(images)}], got {validation_size}.")
    parts = (
        (images[validation_size:], labels[validation_size:]),
        (images[:validation_size], labels[:validation_size]),
        (test_images, test_labels),
    )
    return Datasets(*(DataSet(*part, fake_data, one_hot, dtype, reshape, seed) for part in parts))


def load_mnist(train_dir: str = "MNIST-data") -> Datasets:
    """Reads the digits of a folder with `read_data_sets`."""
    return read_data_sets(train_dir)


def extract_images(f: Any) -> Any:
    """Reads images, uint8 [images, rows, columns, 1], from an open file, compressed by gzip."""
    return _parsed(gzip.decompress(f.read()), getattr(f, "name", "the file"), False)


def extract_labels(f: Any, one_hot: bool = False, num_classes: int = CLASSES) -> Any:
    """Reads labels, uint8 [images], or [images, classes] with ones, from an open gzip file."""
    labels = _parsed(gzip.decompress(f.read()), getattr(f, "name", "the file"), False)
    return np.eye(num_classes)[labels] if one_hot else labels


def _read(folder: str, name: str, one_hot: bool) -> Any:
    for path in (os.path.join(folder, f"{name}.gz"), os.path.join(folder, name)):
        if os.path.exists(path):
            with (gzip.open if path.endswith(".gz") else open)(path, "rb") as file:
                return _parsed(file.read(), path, one_hot)
    raise FileNotFoundError(
        f"There is no {name}.gz in {os.path.abspath(folder)}: put the four files of MNIST there, "
        "nothing is downloaded."
    )


def _parsed(content: bytes, path: str, one_hot: bool) -> Any:
    """Returns images or labels, as the first number of a file tells."""
    kind = int.from_bytes(content[:4], "big")
    if kind not in (_IMAGES, _LABELS):
        raise ValueError(f"{path} is no IDX file of MNIST: it begins with {kind}.")
    rank = kind & 0xFF
    shape = [int.from_bytes(content[4 * i : 4 * i + 4], "big") for i in range(1, rank + 1)]
    values = np.frombuffer(content, np.uint8, offset=4 * (rank + 1)).reshape(shape)
    if kind == _IMAGES:
        return values[..., None]
    return np.eye(CLASSES)[values] if one_hot else values
