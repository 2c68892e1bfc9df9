"""CIFAR-10 in both of its versions, and the reader of the Python version, which runs nothing."""

import numpy as np
import pytest

from examples.slim.datasets.cifar10 import cifar10
from examples.slim.datasets.cifar10_pickles import read_batch
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


def test_reads_pickles_of_python_2(tmp_path):
    """Instructions of protocol 2, with byte strings of either length."""
    pixels = bytes(range(250, 256)) * 50
    content = (
        b"\x80\x02}q\x00(U\x0bbatch_labelq\x01U\x15training batch 1 of 5q\x02"
        b"U\x06labelsq\x03]q\x04(K\x06K\x09e"
        b"U\x04dataq\x05cnumpy.core.multiarray\n_reconstruct\nq\x06(K\x00U\x02u1"
        b"T\x2c\x01\x00\x00" + pixels + b"tb"
        b"U\x09filenamesq\x07]q\x08(U\x05a.pngU\x05b.pngeu."
    )
    (tmp_path / "batch").write_bytes(content)
    found = read_batch(str(tmp_path / "batch"), 150)
    assert found.images.tobytes() == pixels
    assert found.labels.tolist() == [6, 9]


def test_runs_nothing(pickled, tmp_path):
    """A callable named in a file is read as text and never called."""
    trap = tmp_path / "trap"
    command = f"touch {trap}".encode()
    call = b"cos\nsystem\n(U" + bytes([len(command)]) + command + b"tR0"
    good = pickled(np.zeros([1, 4], np.uint8), [1])
    (tmp_path / "batch").write_bytes(good[:2] + call + good[2:])
    assert read_batch(str(tmp_path / "batch"), 4).labels.tolist() == [1]
    assert not trap.exists()


def test_refuses_other_files_and_wrong_labels(rows, write, pickled, tmp_path):
    for content in (b"", b"no such file", b"\x80\x02}.", b"\x80\x02U\x04dataU\x02ab."):
        (tmp_path / "batch").write_bytes(content)
        with pytest.raises(ValueError, match=r"Cannot read .*batch: "):
            read_batch(str(tmp_path / "batch"), 4)
    pixels = write.cifar_records(*rows)[:, 1:]
    (tmp_path / "test_batch").write_bytes(pickled(pixels, [10] * 9))
    with pytest.raises(ValueError, match="a label 10, expected 0 to 9"):
        cifar10("test", str(tmp_path))
    (tmp_path / "batch").write_bytes(pickled(np.zeros([3, 4], np.uint8), [1, 2]))
    with pytest.raises(ValueError, match="12 bytes of images and 2 labels, expected 4 bytes"):
        read_batch(str(tmp_path / "batch"), 4)
