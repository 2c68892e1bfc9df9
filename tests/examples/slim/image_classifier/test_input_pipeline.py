"""Batches made of a dataset: sizes, order, seeds of the images, labels, and errors of the data."""

import numpy as np
import pytest
import tensorflow as tf

from examples.slim.datasets.arrays import array_dataset
from examples.slim.datasets.dataset import Reading
from examples.slim.datasets.tfrecords import tfrecords
from examples.slim.image_classifier import input_pipeline
from examples.slim.image_classifier.data_flags import FlagError
from examples.slim.image_classifier.input_errors import input_errors
from replicate.graph_ops.checks import user_errors

v1 = tf.compat.v1
IMAGES = np.arange(5, dtype=np.uint8).reshape(5, 1, 1, 1) * np.ones([1, 3, 3, 1], np.uint8)
LABELS = np.arange(5) + 1


def noisy(image, height, width, seed):
    """A preprocessing that draws random numbers."""
    noise = tf.random.stateless_uniform([height, width, 1], seed)
    return tf.image.resize(tf.cast(image, tf.float32), [height, width]) + noise / 2


def batches(count, training=True, threads=1, seed=3, **settings):
    dataset = array_dataset("mine", "train", IMAGES, LABELS, 6, {"image": "", "label": ""})
    with tf.Graph().as_default(), v1.Session() as session:
        made = input_pipeline.input_fn(
            dataset,
            Reading(training=training, seed=seed),
            noisy,
            image_size=2,
            batch_size=2,
            num_threads=threads,
            **settings,
        )
        following = v1.data.make_one_shot_iterator(made).get_next()
        return following, [session.run(following) for _ in range(count)]


def test_training_batches_are_full_and_differ_in_each_epoch():
    (images, labels), found = batches(5)
    assert images.shape.as_list() == [2, 2, 2, 1]
    assert (images.dtype, labels.dtype) == (tf.float32, tf.int64)
    assert labels.shape.as_list() == [2]
    order = np.concatenate([labels for _, labels in found])
    assert sorted(order[:5]) == sorted(order[5:]) == list(range(1, 6))
    pixels = np.concatenate([images for images, _ in found])
    np.testing.assert_array_equal(np.floor(pixels[:, 0, 0, 0]), order - 1)
    noise = pixels - np.floor(pixels)
    assert len({round(float(value), 6) for value in noise[:, 0, 0, 0]}) == 10
    # The seed decides, whatever the threads.
    for seed, is_same in ((3, True), (4, False)):
        _, again = batches(5, threads=4, seed=seed)
        assert np.array_equal(np.concatenate([images for images, _ in again]), pixels) == is_same


def test_evaluation_takes_everything_once_in_order():
    _, found = batches(3, training=False, labels_offset=1)
    assert [labels.tolist() for _, labels in found] == [[0, 1], [2, 3], [4]]
    with pytest.raises(ValueError, match=r"^Found a label 1, expected 2 to 5: look"), user_errors():
        batches(1, training=False, labels_offset=2)


def record(encoded, label):
    example = tf.train.Example()
    example.features.feature["image/encoded"].bytes_list.value.append(encoded)
    example.features.feature["image/class/label"].int64_list.value.append(label)
    return example.SerializeToString()


@pytest.fixture
def dataset(tmp_path):
    """Returns a function that makes a dataset of one file with these records."""

    def make(*records):
        with tf.io.TFRecordWriter(str(tmp_path / "train.tfrecord")) as writer:
            for each in records:
                writer.write(each)
        (tmp_path / "labels.txt").write_text("0:zero\n1:one\n")
        return tfrecords("train", str(tmp_path))

    return make


def read(dataset):
    def preprocess(image, height, width, seed):
        return tf.image.resize(tf.cast(image, tf.float32), [height, width])

    with tf.Graph().as_default(), v1.Session() as session, input_errors(dataset):
        batches = input_pipeline.input_fn(
            dataset, Reading(training=False), preprocess, image_size=2, batch_size=1
        )
        following = v1.data.make_one_shot_iterator(batches).get_next()
        with user_errors():
            return session.run(following)


def test_wrong_record_is_named_in_one_line(dataset, tmp_path):
    def refused(made, message):
        named = f"^Cannot read the train images of tfrecords: .*{message}"
        with pytest.raises(FlagError, match=named) as caught:
            read(made)
        assert len(str(caught.value).splitlines()) == 1
        assert "node" not in str(caught.value)

    png = tf.io.encode_png(tf.zeros([3, 3, 3], tf.uint8)).numpy()
    refused(dataset(b"no example"), "Could not parse")
    refused(dataset(record(png, 1)[1:] + b"\0\n"), "Could not parse example input$")
    refused(dataset(record(b"no image", 1)), "Unknown image file format")
    refused(dataset(record(png, 7)), "Found a label 7, expected 0 to 1")
    made = dataset(record(png, 1))
    assert read(made)[1].tolist() == [1]
    content = bytearray((tmp_path / "train.tfrecord").read_bytes())
    content[40] ^= 1
    (tmp_path / "train.tfrecord").write_bytes(bytes(content))
    refused(made, "corrupted record at")


def test_other_errors_pass():
    for error in (ValueError("a bug"), tf.errors.DataLossError(None, None, "it")):
        with pytest.raises(type(error)) as caught, input_errors(None):
            raise error
        assert caught.value is error
