"""Images of random pixels, as files and as records."""

import gzip
import importlib
import struct
from pathlib import Path

import numpy as np

from tools.published.data.records import write_records
from tools.published.data.words import WORDS, write_lines


def digits(count: int, size: int = 28, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Returns images of shape [count, size, size], of bytes, and labels from 0 to 9."""
    numbers = np.random.default_rng(seed)
    labels = np.arange(count) % 10
    images = numbers.integers(0, 128, [count, size, size])
    images[np.arange(count), labels, :] += 100
    return images.astype("u1"), labels


def idx_files(folder: Path, packed: bool = True, train: int = 128) -> None:
    """Writes the four files of MNIST, with that many rows to train on."""
    for name, count in (("train", train), ("t10k", 64)):
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


def mnist(folder: Path) -> None:
    """Writes files of MNIST with more than the 5,000 rows that its readers hold back."""
    idx_files(folder, train=5200)


def unpacked(folder: Path) -> None:
    """Writes the files of MNIST unpacked."""
    idx_files(folder, packed=False, train=256)


def faces(folder: Path) -> None:
    """Writes images of 8 people, 4 each, into folders by their names."""
    image = importlib.import_module("PIL.Image")
    for number in range(8):
        person = folder / "faces" / f"person{number}"
        person.mkdir(parents=True)
        pixels, _ = digits(12, 64, seed=number)
        for each in range(4):
            colors = np.stack(pixels[3 * each : 3 * each + 3], axis=-1)
            image.fromarray(colors).save(person / f"person{number}_{each:04}.png")


def signs(folder: Path) -> None:
    """Writes images of hands that show 0 to 5, by names that begin with the number."""
    image = importlib.import_module("PIL.Image")
    for part, count in (("train_signs", 32), ("dev_signs", 32)):
        (folder / part).mkdir()
        pixels, _ = digits(3 * count, 64)
        for each in range(count):
            colors = np.stack(pixels[3 * each : 3 * each + 3], axis=-1)
            image.fromarray(colors).save(folder / part / f"{each % 6}_IMG_{each}.jpg")


def handwriting(folder: Path) -> None:
    """Writes images of words, with their texts, in the form of the IAM database."""
    image = importlib.import_module("PIL.Image")
    (folder / "gt").mkdir()
    images = folder / "img" / "a01" / "a01-000"
    images.mkdir(parents=True)
    pixels, _ = digits(40, 32)
    lines = []
    for number, word in enumerate(WORDS[:40]):
        name = f"a01-000-{number:02}-00"
        image.fromarray(np.tile(pixels[number], [1, 3])).save(images / f"{name}.png")
        lines.append(f"{name} ok 154 1 1 96 32 AT {word}")
    write_lines(folder / "gt" / "words.txt", lines)


def house_numbers(folder: Path) -> None:
    """Writes images in color in the form of SVHN, `extra_32x32.mat` and `test_32x32.mat`."""
    matlab = importlib.import_module("scipy.io")
    for name, count in (("extra", 200), ("test", 100)):
        pixels, labels = digits(count, 32)
        colors = np.stack([pixels] * 3, axis=-1).transpose(1, 2, 3, 0)
        rows = {"X": colors, "y": np.where(labels, labels, 10)[:, None].astype("u1")}
        matlab.savemat(folder / f"{name}_32x32.mat", rows)


def clouds(folder: Path) -> None:
    """Writes clouds of points of 40 kinds, in the form of ModelNet40."""
    h5py = importlib.import_module("h5py")
    numbers = np.random.default_rng(0)
    folder = folder / "modelnet40_ply_hdf5_2048"
    folder.mkdir()
    for name in ("train", "test"):
        path = folder / f"{name}.h5"
        with h5py.File(path, "w") as file:
            file["data"] = numbers.normal(size=[16, 2048, 3]).astype("f4")
            file["label"] = (np.arange(16) % 40).astype("u1")[:, None]
        (folder / f"{name}_files.txt").write_text(f"{path}\n")
