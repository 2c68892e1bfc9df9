"""CIFAR-10 in both of its versions, in the folder or in that of the archive."""

import numpy as np
import pytest

from examples.slim.datasets.cifar10 import cifar10
from examples.slim.datasets.dataset import Reading


def test_folder_of_the_archive_is_found(rows, write, tmp_path):
    inner = tmp_path / "cifar-10-batches-bin"
    inner.mkdir()
    write.write_cifar(inner, *rows)
    dataset = cifar10("test", str(tmp_path))
    images, labels = write.read(dataset, Reading(training=False))
    np.testing.assert_array_equal(images, rows[0])
    assert labels == rows[1].tolist()
    assert not dataset.in_memory


def test_both_versions_are_the_same_images(rows, write, pickled, tmp_path):
    records = write.cifar_records(*rows)
    for number in range(1, 6):
        part = records[2 * (number - 1) : 2 * number]
        (tmp_path / f"data_batch_{number}").write_bytes(pickled(part[:, 1:], part[:, 0].tolist()))
    dataset = cifar10("train", str(tmp_path))
    images, labels = write.read(dataset, Reading(training=False))
    np.testing.assert_array_equal(images, rows[0])
    assert labels == rows[1].tolist()
    assert dataset.in_memory


def test_missing_and_truncated_files(rows, write, tmp_path):
    with pytest.raises(ValueError, match=r"not have all of data_batch_1.bin, .*cifar-10-binary"):
        cifar10("train", str(tmp_path))
    write.write_cifar(tmp_path, *rows)
    path = tmp_path / "data_batch_4.bin"
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(ValueError, match=r"data_batch_4.bin: 3072 bytes, expected a multiple of 3"):
        cifar10("train", str(tmp_path))


def test_labels_above_nine_are_refused(rows, write, pickled, tmp_path):
    pixels = write.cifar_records(*rows)[:, 1:]
    (tmp_path / "test_batch").write_bytes(pickled(pixels, [10] * 9))
    with pytest.raises(ValueError, match="a label 10, expected 0 to 9"):
        cifar10("test", str(tmp_path))
