"""Images of handwritten digits: scikit-learn's, and MNIST's IDX files.

`examples/mnist.py` loads both. This module makes datasets of them. Reference for
MNIST: LeCun, Cortes & Burges, "The MNIST database of handwritten digits".
"""

import numpy as np

from examples import mnist
from examples.slim.datasets.arrays import array_dataset
from examples.slim.datasets.dataset import ImageDataset
from examples.slim.datasets.splits import check_no_pattern, check_split, required_folder

SPLITS = ("train", "test")


def digits(
    split_name: str, dataset_dir: str | None = None, file_pattern: str | None = None
) -> ImageDataset:
    """Returns scikit-learn's digits, images of 8x8: "train" has 1,437, "test" 360.

    They are part of scikit-learn, so there are no folder and no pattern.

    Raises:
      ValueError: There is no such split, or there is a pattern.
    """
    del dataset_dir
    check_split("digits", split_name, SPLITS)
    check_no_pattern("digits", file_pattern)
    return _dataset("digits", split_name, mnist.load_digits())


def mnist_idx(
    split_name: str, dataset_dir: str | None, file_pattern: str | None = None
) -> ImageDataset:
    """Returns MNIST, images of 28x28: "train" has 60,000, "test" 10,000.

    The folder has the four IDX files, plain or .gz. Their names are fixed, so there is no pattern.

    Raises:
      ValueError: There is no such split, there is a pattern, or files are missing or damaged.
    """
    check_split("mnist", split_name, SPLITS)
    check_no_pattern("mnist", file_pattern)
    return _dataset("mnist", split_name, mnist.load_idx(required_folder("mnist", dataset_dir)))


def _dataset(name: str, split_name: str, data: mnist.Dataset) -> ImageDataset:
    part = data.train if split_name == "train" else data.test
    height, width = part.images.shape[1:3]
    return array_dataset(
        name,
        split_name,
        np.rint(part.images * 255).astype(np.uint8),
        part.labels,
        mnist.CLASSES,
        {"image": f"A digit, [{height} x {width} x 1].", "label": "0 to 9: the digit itself."},
    )
