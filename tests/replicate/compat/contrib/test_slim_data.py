"""Slim's readers, decoders, queues and tables of variables."""

import numpy as np
import pytest
import tensorflow as tf

from replicate.compat.contrib import slim

v1 = tf.compat.v1
pytestmark = pytest.mark.usefixtures("graph")
PICTURE = np.arange(2 * 3 * 3, dtype="u1").reshape(2, 3, 3) * 9


def example(**features):
    made = tf.train.Example()
    for name, value in features.items():
        feature = made.features.feature[name.replace("__", "/")]
        if isinstance(value, bytes):
            feature.bytes_list.value.append(value)
        elif isinstance(value, float):
            feature.float_list.value.append(value)
        else:
            feature.int64_list.value.extend(value)
    return made.SerializeToString()


def decode(serialized, keys, handlers, items=None):
    decoder = slim.tfexample_decoder.TFExampleDecoder(keys, handlers)
    return decoder.decode(serialized, items)


@pytest.mark.parametrize("kind", ["png", "jpeg", "unknown", "raw"])
def test_pictures_are_decoded(kind, evaluate):
    encoders = {
        "png": tf.io.encode_png,
        "jpeg": lambda picture: tf.io.encode_jpeg(picture, quality=100),
        "unknown": tf.io.encode_png,
        "raw": lambda picture: tf.constant(picture.tobytes()),
    }
    encoded = evaluate(encoders[kind](PICTURE))
    keys = {
        "image/encoded": v1.FixedLenFeature((), tf.string, default_value=""),
        "image/format": v1.FixedLenFeature((), tf.string, default_value="jpeg"),
    }
    serialized = example(image__encoded=encoded, image__format=kind.encode())
    handler = slim.tfexample_decoder.Image(shape=[2, 3, 3])
    (image,) = decode(serialized, keys, {"image": handler}, ["image"])
    assert (image.shape, image.dtype) == ([2, 3, 3], tf.uint8)
    np.testing.assert_allclose(evaluate(image), PICTURE, atol=40 if kind == "jpeg" else 0)


def test_items_are_handled(evaluate):
    keys = {
        "label": v1.FixedLenFeature([1], tf.int64),
        "some": v1.VarLenFeature(tf.int64),
        **{f"box/{side}": v1.VarLenFeature(tf.float32) for side in ("a", "b", "c", "d")},
    }
    decoders = slim.tfexample_decoder
    handlers = {
        "label": decoders.Tensor("label", shape=[]),
        "some": decoders.Tensor("some", default_value=7),
        "sparse": decoders.SparseTensor("some", "some", [10]),
        "box": decoders.BoundingBox(["a", "b", "c", "d"], "box/"),
        "twice": decoders.ItemHandlerCallback(["label"], lambda tensors: tensors["label"] * 2),
    }
    serialized = example(label=[3], some=[4, 5], box__a=0.1, box__b=0.2, box__c=0.3, box__d=0.4)
    names = ["label", "some", "box", "twice"]
    label, some, box, twice = decode(serialized, keys, handlers, names)
    found = evaluate([label, some, box, twice])
    assert (found[0], found[1].tolist(), found[3].tolist()) == (3, [4, 5], [6])
    np.testing.assert_allclose(found[2], [[0.1, 0.2, 0.3, 0.4]])


@pytest.fixture
def records(tmp_path):
    for shard in range(2):
        with tf.io.TFRecordWriter(str(tmp_path / f"data-{shard}")) as writer:
            for number in range(3):
                writer.write(example(n=[10 * shard + number]))
    decoder = slim.tfexample_decoder.TFExampleDecoder(
        {"n": v1.FixedLenFeature([], tf.int64)}, {"n": slim.tfexample_decoder.Tensor("n")}
    )
    return slim.dataset.Dataset(str(tmp_path / "data-*"), v1.TFRecordReader, decoder, 6, {})


def read(tensor, number):
    with v1.Session() as session:
        session.run([v1.global_variables_initializer(), v1.local_variables_initializer()])
        with slim.queues.QueueRunners(session):
            return [session.run(tensor) for _ in range(number)]


@pytest.mark.parametrize("num_readers", [1, 2])
def test_provider_reads_each_record_once_an_epoch(records, num_readers):
    provider = slim.dataset_data_provider.DatasetDataProvider(
        records, num_readers=num_readers, shuffle=False, num_epochs=1, record_key="key"
    )
    assert list(provider.list_items()) == ["n", "key"]
    assert provider.num_samples() == 6
    number, key = provider.get(["n", "key"])
    queue = slim.prefetch_queue.prefetch_queue([number, tf.ensure_shape(key, [])], capacity=3)
    found = read(queue.dequeue(), 6)
    assert sorted(int(each) for each, _ in found) == [0, 1, 2, 10, 11, 12]
    assert len({each for _, each in found}) == 6


def test_variables_are_listed(capsys):
    slim.fully_connected(tf.ones([2, 3]), 4, scope="fc")
    assert slim.model_analyzer.analyze_vars(v1.trainable_variables(), print_info=True) == (16, 64)
    told = capsys.readouterr().out.replace("_ref", "")
    assert "fc/weights:0 (float32 3x4) [12, bytes: 48]" in told
