"""Receivers of serving input: their functions, tensors and errors."""

import numpy as np
import pytest
import tensorflow as tf

from replicate.export.receiver_fns import (
    build_parsing_serving_input_receiver_fn,
    build_raw_serving_input_receiver_fn,
    build_raw_supervised_input_receiver_fn,
    build_supervised_input_receiver_fn_from_input_fn,
)
from replicate.export.receivers import (
    ServingInputReceiver,
    SupervisedInputReceiver,
    TensorServingInputReceiver,
    UnsupervisedInputReceiver,
)

v1 = tf.compat.v1
SPARSE, SCALAR, VECTOR = tf.SparseTensorSpec([2, 3]), tf.TensorSpec([]), tf.TensorSpec([1])

pytestmark = pytest.mark.usefixtures("graph")


def example(**floats):
    features = {
        name: tf.train.Feature(float_list=tf.train.FloatList(value=values))
        for name, values in floats.items()
    }
    return tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString()


def test_parsing_receiver_parses_examples(evaluate):
    spec = {"x": tf.io.FixedLenFeature([2], tf.float32), "v": tf.io.VarLenFeature(tf.float32)}
    receiver = build_parsing_serving_input_receiver_fn(spec)()
    request = receiver.receiver_tensors["examples"]
    assert (request.dtype, request.shape.as_list()) == (tf.string, [None])
    assert request.name == "input_example_tensor:0"
    features = evaluate(receiver.features, {request: [example(x=[1, 2]), example(x=[3, 4], v=[5])]})
    np.testing.assert_array_equal(features["x"], [[1, 2], [3, 4]])
    np.testing.assert_array_equal(features["v"].values, [5])
    receiver = build_parsing_serving_input_receiver_fn(spec, default_batch_size=3)()
    assert receiver.receiver_tensors["examples"].shape.as_list() == [3]
    assert receiver.features["x"].shape.as_list() == [3, 2]


def shapes(tensors):
    return {name: (each.dtype, each.shape) for name, each in tensors.items()}


@pytest.mark.parametrize("batch_size", [None, 4])
def test_raw_receiver_feeds_features(batch_size):
    given = {
        "a": v1.placeholder(tf.float32, [7, 2], name="a_tensor"),
        "b": tf.TensorSpec([None], tf.string),
        "c": np.zeros([2, 3], np.int64),
        "d": v1.placeholder(tf.int32),
    }
    receive = build_raw_serving_input_receiver_fn(given, batch_size)
    with tf.Graph().as_default():
        receiver = receive()
    assert receiver.features == receiver.receiver_tensors
    assert receiver.features["a"].name == "a_tensor:0"
    assert receiver.features["d"].shape.rank is None
    assert shapes({name: receiver.features[name] for name in "abc"}) == {
        "a": (tf.float32, tf.TensorShape([batch_size, 2])),
        "b": (tf.string, tf.TensorShape([batch_size])),
        "c": (tf.int64, tf.TensorShape([batch_size, 3])),
    }


def test_raw_receivers_feed_single_features_and_labels():
    receiver = build_raw_serving_input_receiver_fn(tf.TensorSpec([None, 2]))()
    assert list(receiver.receiver_tensors) == ["input"]
    assert receiver.features == {"feature": receiver.receiver_tensors["input"]}
    receiver = build_raw_supervised_input_receiver_fn(
        {"x": tf.TensorSpec([None, 2])}, tf.TensorSpec([None], tf.int64)
    )()
    assert list(receiver.receiver_tensors) == ["x", "label"]
    assert receiver.features == {"x": receiver.receiver_tensors["x"]}
    assert receiver.labels is receiver.receiver_tensors["label"]
    assert receiver.labels.dtype == tf.int64


def as_tensors(rows):
    return tf.zeros([rows, 2]), {"y": tf.zeros([rows], tf.int32)}


def as_dataset(rows):
    return tf.data.Dataset.from_tensors(as_tensors(rows))


@pytest.mark.parametrize("input_fn", [as_tensors, as_dataset])
def test_receiver_follows_the_input_fn(graph, input_fn):
    receive = build_supervised_input_receiver_fn_from_input_fn(input_fn, rows=5)
    assert graph.get_operations() == []
    receiver = receive()
    assert shapes(receiver.receiver_tensors) == {
        "input": (tf.float32, tf.TensorShape([None, 2])),
        "y": (tf.int32, tf.TensorShape([None])),
    }
    assert receiver.features is receiver.receiver_tensors["input"]
    assert receiver.labels == {"y": receiver.receiver_tensors["y"]}


@pytest.mark.parametrize(
    ("build", "given", "error", "text"),
    [
        (build_raw_serving_input_receiver_fn, [{"a": 3}], TypeError, "'a' must be dense"),
        (build_raw_serving_input_receiver_fn, [{"a": SPARSE}], TypeError, "'a' must be dense"),
        (build_raw_serving_input_receiver_fn, [{"a": SCALAR}], ValueError, "'a' is a scalar"),
        (build_raw_supervised_input_receiver_fn, [{"a": VECTOR, "b": VECTOR}, {"a": VECTOR}],
         ValueError, r"both have \['a'\]"),
        (build_supervised_input_receiver_fn_from_input_fn, [lambda: tf.ones([1])], ValueError,
         r"must give \(features, labels\), got"),
    ],
)  # fmt: skip
def test_invalid_features_and_labels_are_refused(build, given, error, text):
    with pytest.raises(error, match=text):
        build(*given)


def test_receivers_name_tensors_and_keep_dicts():
    a, b = tf.ones([1]), tf.sparse.from_dense([[1]])
    serving, tensor = ServingInputReceiver(a, a), TensorServingInputReceiver(a, a)
    assert serving.features == {"feature": a}
    assert tensor.features is a
    for receiver in (serving, tensor):
        assert receiver.receiver_tensors == {"input": a}
        assert receiver.receiver_tensors_alternatives is None
    receiver = ServingInputReceiver({"a": a, 7: b}, {"a": a, "b": b}, {"raw": a, "other": {"x": b}})
    assert receiver.features == {"a": a, 7: b}
    assert receiver.receiver_tensors == {"a": a, "b": b}
    assert receiver.receiver_tensors_alternatives == {"raw": {"input": a}, "other": {"x": b}}
    supervised = SupervisedInputReceiver(a, {"b": b, 0: a}, {"a": a, "b": b})
    assert supervised.features is a
    assert supervised.labels == {"b": b, 0: a}
    assert supervised.receiver_tensors == {"a": a, "b": b}
    unsupervised = UnsupervisedInputReceiver({"a": a}, a)
    assert unsupervised.features == {"a": a}
    assert unsupervised.receiver_tensors == {"input": a}


@pytest.mark.parametrize(
    ("kind", "arguments", "error", "text"),
    [
        (ServingInputReceiver, (None, 1), ValueError, "features are None"),
        (ServingInputReceiver, ("tensor", {}), ValueError, r"receiver_tensors are \{\}"),
        (ServingInputReceiver, ("tensor", [1]), TypeError, "'input' in receiver_tensors must be"),
        (ServingInputReceiver, ("tensor", "tensor", "a"), TypeError, "must be a dict of name to"),
        (ServingInputReceiver, ("tensor", "tensor", {"raw": 3}), TypeError, r"es\['raw'\] must be"),
        (ServingInputReceiver, ("tensor", {2: "tensor"}), ValueError, "must be strings, got 2"),
        (ServingInputReceiver, ({(): 1}, "tensor"), ValueError, r"strings or integers, got \(\)"),
        (TensorServingInputReceiver, ({"a": 1}, 1), TypeError, r"got a dict of \['a'\]"),
        (SupervisedInputReceiver, ("tensor", None, 1), ValueError, "labels are None"),
        (UnsupervisedInputReceiver, (5, "tensor"), TypeError, "'feature' in features .* got 5"),
    ],
)
def test_invalid_receiver_arguments_are_refused(kind, arguments, error, text):
    def made(value):
        if isinstance(value, dict):
            return {name: made(each) for name, each in value.items()}
        return tf.ones([1]) if value == "tensor" else value

    with pytest.raises(error, match=text):
        kind(*map(made, arguments))
