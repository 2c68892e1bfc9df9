"""Images of random pixels, as files and as records."""

import gzip
import struct
from pathlib import Path

import numpy as np

from tools.published.data.records import write_records


def digits(count: int, size: int = 28, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Returns images of shape [count, size, size], of bytes, and labels from 0 to 9."""
    numbers = np.random.default_rng(seed)
    labels = np.arange(count) % 10
    images = numbers.integers(0, 128, [count, size, size])
    images[np.arange(count), labels, :] += 100
    return images.astype("u1"), labels


def idx_files(folder: Path, packed: bool = True) -> None:
    """Writes the four files of MNIST."""
    for name, count in (("train", 128), ("t10k", 64)):
        images, labels = digits(count)
        parts = (
            ("images-idx3", struct.pack(">4i", 2051, *images.shape) + images.tobytes()),
            ("labels-idx1", struct.pack(">2i", 2049, count) + labels.astype("u1").tobytes()),
        )
        for kind, data in parts:
            path = folder / f"{name}-{kind}-ubyte{'.gz' if packed else ''}"
            path.write_bytes(gzip.compress(data, mtime=0) if packed else data)


def digit_records(folder: Path) -> None:
    """Writes digits as `train.tfrecords`, `validation.tfrecords` and `test.tfrecords`."""
    for number, name in enumerate(("train", "validation", "test")):
        images, labels = digits(32, seed=number)
        rows = [
            {"image_raw": image.tobytes(), "label": int(label)}
            for image, label in zip(images, labels, strict=True)
        ]
        write_records(folder / f"{name}.tfrecords", rows)


def dcgan_digits(folder: Path) -> None:
    """Writes the files of MNIST unpacked, in a folder `mnist`."""
    (folder / "mnist").mkdir()
    idx_files(folder / "mnist", packed=False)
