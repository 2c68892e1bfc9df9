"""Errors of the input pipeline become errors of the data; all others stay as they are."""

import pytest
import tensorflow as tf

from examples.slim.datasets.dataset import Reading
from examples.slim.datasets.tfrecords import tfrecords
from examples.slim.image_classifier import input_pipeline
from examples.slim.image_classifier.data_flags import FlagError
from examples.slim.image_classifier.input_errors import input_errors
from replicate.graph_ops.checks import user_errors

v1 = tf.compat.v1


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
