"""Small files of every kind that the datasets read, and the images that are in them."""

import struct
from types import SimpleNamespace

import numpy as np
import pytest
import tensorflow as tf

from examples.slim.datasets import factory

v1 = tf.compat.v1


def write_idx(path, array):
    head = struct.pack(">BBBB", 0, 0, 8, array.ndim) + struct.pack(f">{array.ndim}I", *array.shape)
    path.write_bytes(head + array.tobytes())


def write_mnist(folder, images, labels):
    for part in ("train", "t10k"):
        write_idx(folder / f"{part}-images-idx3-ubyte", images[..., 0])
        write_idx(folder / f"{part}-labels-idx1-ubyte", labels)


def cifar_records(images, labels):
    """Each a byte for the label and the pixels, channel by channel."""
    pixels = images.transpose(0, 3, 1, 2).reshape(len(images), -1)
    return np.hstack([labels[:, np.newaxis], pixels]).astype(np.uint8)


def write_cifar(folder, images, labels):
    """Five files for training, with different numbers of images, and all of them for testing."""
    bounds = [0, 2, 5, 6, 7, len(labels)]
    for number in range(1, 6):
        rows = slice(bounds[number - 1], bounds[number])
        part = cifar_records(images[rows], labels[rows])
        (folder / f"data_batch_{number}.bin").write_bytes(part.tobytes())
    (folder / "test_batch.bin").write_bytes(cifar_records(images, labels).tobytes())


def example(encoded, label):
    record = tf.train.Example()
    record.features.feature["image/encoded"].bytes_list.value.append(encoded)
    record.features.feature["image/class/label"].int64_list.value.append(label)
    return record.SerializeToString()


def write_tfrecords(folder, images, labels, split="train", shards=3):
    for shard in range(shards):
        name = folder / f"{split}-{shard:05d}-of-{shards:05d}"
        with tf.io.TFRecordWriter(str(name)) as writer:
            for row in range(shard, len(labels), shards):
                encoded = tf.io.encode_png(images[row]).numpy()
                writer.write(example(encoded, int(labels[row])))
    (folder / "labels.txt").write_text("".join(f"{number}:class\n" for number in range(10)))


def read(dataset, reading, count=None):
    """Returns the images and labels of a pass, or of the first `count` elements."""
    with tf.Graph().as_default(), v1.Session() as session:
        elements = dataset.elements(reading).map(dataset.decode)
        following = v1.data.make_one_shot_iterator(elements).get_next()
        found = []
        while count is None or len(found) < count:
            try:
                found.append(session.run(following))
            except tf.errors.OutOfRangeError:
                break
    return [image for image, _ in found], [int(label) for _, label in found]


@pytest.fixture
def write():
    """The functions that write files of each kind, and `read`."""
    return SimpleNamespace(**globals())


@pytest.fixture
def rows():
    """Images, uint8 [9, 32, 32, 3], and labels 0 to 8 in another order."""
    random = np.random.RandomState(0)
    images = random.randint(0, 256, (9, 32, 32, 3)).astype(np.uint8)
    return images, np.array([3, 1, 4, 8, 5, 2, 6, 0, 7], np.uint8)


@pytest.fixture(params=["mnist", "cifar10", "tfrecords"])
def known(request, rows, tmp_path):
    """A dataset and what is in it: (dataset, images, labels), labels from 0 to 8."""
    images, labels = rows
    if request.param == "mnist":
        images = images[..., :1]
        write_mnist(tmp_path, images, labels)
    elif request.param == "cifar10":
        write_cifar(tmp_path, images, labels)
    else:
        write_tfrecords(tmp_path, images, labels)
    return factory.get_dataset(request.param, "train", str(tmp_path)), images, labels


@pytest.fixture
def pickled():
    """Writes a dict with "data" and "labels" as Python does; the array as NumPy dumps it."""

    def write_dict(data, labels):
        array = data.dumps().removesuffix(b".")
        if array.startswith(b"\x80"):
            array = array[2:]
        numbers = b"".join(b"K" + bytes([label]) for label in labels)
        return b"\x80\x04}(U\x06labels](" + numbers + b"eU\x04data" + array + b"u."

    return write_dict
