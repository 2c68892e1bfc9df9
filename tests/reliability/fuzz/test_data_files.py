"""Data files: IDX and TFRecord files are read as they are, or refused in one line."""

import gzip
import shutil
import struct

import numpy as np
import pytest
import tensorflow as tf

from examples import mnist
from examples.slim.datasets.dataset import Reading
from examples.slim.datasets.tfrecords import tfrecords
from examples.slim.image_classifier.input_errors import input_errors

v1 = tf.compat.v1
COUNT = 6
SIDES = (5, 4)
PARTS = ("train-images-idx3", "train-labels-idx1", "t10k-images-idx3", "t10k-labels-idx1")


def idx(array):
    head = struct.pack(">BBBB", 0, 0, 8, array.ndim) + struct.pack(f">{array.ndim}I", *array.shape)
    return head + array.tobytes()


def arrays():
    images = np.arange(COUNT * SIDES[0] * SIDES[1], dtype=np.uint8).reshape(COUNT, *SIDES)
    labels = np.arange(COUNT, dtype=np.uint8)
    return dict(zip(PARTS, (images, labels, images[::-1], labels[::-1]), strict=True))


def change_head(draw, content):
    """Returns an IDX file with another magic number or other dimensions."""
    rank = content[3]
    words = [draw.choice((0, 1, 4, 5, 6, 7, 255, 2**16, 2**31, 2**32 - 1)) for _ in range(rank)]
    magic = draw.choice(
        (content[:4], b"\0\0\x08" + bytes([draw.randrange(256)]), draw.randbytes(4))
    )
    kept = draw.choice((0, rank, rank))
    dimensions = content[4 : 4 + 4 * kept] + struct.pack(f">{rank - kept}I", *words[kept:])
    return magic + dimensions + content[4 + 4 * rank :]


def damage_path(draw, damage, path):
    """Damages a file, or puts something else in its place."""
    if draw.random() < 0.85:
        path.write_bytes(damage.bytes(draw, path.read_bytes()))
    else:
        damage.path(draw, path)


def emptied(folder):
    """Makes a folder anew, and returns it."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    return folder


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("cases", [100, pytest.param(2_000, marks=pytest.mark.slow)])
def test_idx(fuzz, cases, damage, refuses, tmp_path):
    def play(draw):
        folder = emptied(tmp_path / "data")
        written, wrong = arrays(), draw.choice(PARTS)
        for part, array in written.items():
            content = idx(array)
            is_zipped, is_head = draw.random() < 0.4, draw.random() < 0.4
            if part == wrong and is_head:
                content = change_head(draw, content)
                written[part] = None
            path = folder / f"{part}-ubyte{'.gz' * is_zipped}"
            path.write_bytes(gzip.compress(content, mtime=0) if is_zipped else content)
            if part == wrong and not is_head:
                damage_path(draw, damage, path)
                written[part] = array if is_zipped else None
        with refuses(ValueError):
            data = mnist.load(str(folder))
        check_idx(data, written)

    fuzz("idx", cases, play)


def check_idx(data, written):
    """Raises AssertionError unless the arrays have one shape and are those that were written."""
    for examples, names in ((data.train, PARTS[:2]), (data.test, PARTS[2:])):
        assert examples.images.ndim == 4
        assert len(examples.images) == len(examples.labels) > 0
        assert 0 <= examples.labels.min() <= examples.labels.max() < mnist.CLASSES
        assert 0 <= examples.images.min() <= examples.images.max() <= 1
        for found, name in zip(examples, names, strict=True):
            if written[name] is not None:
                scale = 255 if found is examples.images else 1
                np.testing.assert_array_equal(np.rint(found * scale).squeeze(), written[name])


def example(draw, damage, number, is_wrong):
    """Returns a record: an image all of one colour, and its label; or a wrong one."""
    image = np.full([*SIDES, 3], number, np.uint8)
    encoded = tf.io.encode_png(image).numpy()
    label = [number]
    if is_wrong:
        encoded = draw.choice((damage.bytes(draw, encoded), encoded))
        label = draw.choice((label, [], [1, 2], [-1], [COUNT], [2**62]))
    features = {
        "image/encoded": tf.train.Feature(bytes_list=tf.train.BytesList(value=[encoded])),
        "image/class/label": tf.train.Feature(int64_list=tf.train.Int64List(value=label)),
    }
    if is_wrong and draw.random() < 0.2:
        del features[draw.choice(sorted(features))]
    content = tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString()
    return damage.bytes(draw, content) if is_wrong and draw.random() < 0.3 else content


def write_records(path, records):
    with tf.io.TFRecordWriter(str(path)) as writer:
        for record in records:
            writer.write(record)


def read(folder):
    """Returns the images and labels of a folder, as the image classifier reads them."""
    dataset = tfrecords("train", str(folder))
    with tf.Graph().as_default(), v1.Session() as session, input_errors(dataset):
        elements = dataset.elements(Reading(training=False)).map(dataset.decode)
        following = v1.data.make_one_shot_iterator(elements).get_next()
        found = []
        while True:
            try:
                found.append(session.run(following))
            except tf.errors.OutOfRangeError:
                return dataset, found


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("cases", [10, pytest.param(2_000, marks=pytest.mark.slow)])
def test_tfrecords(fuzz, cases, damage, refuses, tmp_path):
    def play(draw):
        folder = emptied(tmp_path / "data")
        wrong = draw.choice((-1, *range(COUNT)))
        records = [example(draw, damage, number, number == wrong) for number in range(COUNT)]
        paths = [folder / f"train-{shard:05d}-of-00002" for shard in range(2)]
        write_records(paths[0], records[: COUNT // 2])
        write_records(paths[1], records[COUNT // 2 :])
        labels = folder / "labels.txt"
        labels.write_text("".join(f"{number}:name\n" for number in range(COUNT)))
        if wrong == -1 or draw.random() < 0.2:
            damage_path(draw, damage, draw.choice((*paths, *paths, labels)))
        with refuses(ValueError):
            dataset, found = read(folder)
        assert len(found) == dataset.num_samples
        assert isinstance(dataset.num_classes, int)
        assert 0 < dataset.num_classes < 2**31
        numbers = range(COUNT) if all(path.is_file() for path in paths) else ()
        for number, (image, label) in zip(numbers, found, strict=False):
            if number != wrong and len(found) == COUNT:
                assert label == number
                np.testing.assert_array_equal(image, np.full([*SIDES, 3], number))

    fuzz("tfrecord", cases, play, expected=("refused",))
