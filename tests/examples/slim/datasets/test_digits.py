"""The digits of scikit-learn and of MNIST as datasets."""

import numpy as np
import pytest

from examples import mnist
from examples.slim.datasets import digits
from examples.slim.datasets.dataset import Reading

pytest.importorskip("sklearn")


@pytest.mark.parametrize(("split", "count"), [("train", 1437), ("test", 360)])
def test_bundled_digits(write, split, count):
    dataset = digits.digits(split)
    assert (dataset.num_samples, dataset.num_classes) == (count, 10)
    images, labels = write.read(dataset, Reading(training=False), 5)
    part = getattr(mnist.load_digits(), split)
    np.testing.assert_allclose(np.array(images) / 255, part.images[:5], atol=0.002)
    assert labels == part.labels[:5].tolist()


def test_refuses_other_splits_patterns_and_folders_without_files(tmp_path):
    for make in (digits.digits, digits.mnist_idx):
        with pytest.raises(ValueError, match="no split 'validation'; it has train, test"):
            make("validation", str(tmp_path))
        with pytest.raises(ValueError, match="takes no file pattern, got 'x'"):
            make("train", str(tmp_path), "x")
    with pytest.raises(ValueError, match="no train-images-idx3-ubyte"):
        digits.mnist_idx("train", str(tmp_path))
