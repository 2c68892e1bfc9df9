"""Calls of input_fn and model_fn, and the batches that they pass on."""

import functools

import numpy as np
import pytest
import tensorflow as tf

from replicate.estimator.calling import call_input_fn, call_model_fn, check_model_fn
from replicate.estimator.input_batches import batch_size, build_inputs
from replicate.estimator.run_config import RunConfig
from replicate.spec import EstimatorSpec, ModeKeys

v1 = tf.compat.v1


@pytest.fixture(scope="module")
def eager_tensor():
    """A Tensor that is made before the graph of a test is the default one."""
    return tf.zeros([2, 3])


pytestmark = pytest.mark.usefixtures("eager_tensor", "graph")


def build(input_fn, mode=ModeKeys.TRAIN):
    return build_inputs(input_fn, mode, {}, RunConfig())


def rows(*parts):
    return lambda: tf.data.Dataset.from_tensor_slices(parts if len(parts) > 1 else parts[0]).batch(
        2
    )


def test_dataset_of_features_and_labels():
    inputs = build(rows([1, 2, 3], [4, 5, 6]))
    with v1.Session() as session:
        inputs.position.begin(session, None)
        features, labels = session.run([inputs.features, inputs.labels])
        np.testing.assert_array_equal(features, [1, 2])
        np.testing.assert_array_equal(labels, [4, 5])


def test_position_belongs_to_training_datasets():
    config = RunConfig(save_input_position=False)
    inputs = build(rows({"x": [1, 2]}))
    assert inputs.position is not None
    assert (list(inputs.features), inputs.labels) == (["x"], None)
    assert build(rows([1, 2]), ModeKeys.EVAL).position is None
    assert len(v1.get_collection(v1.GraphKeys.TABLE_INITIALIZERS)) == 1
    assert build(lambda: tf.zeros([2])).position is None
    assert build_inputs(rows([1, 2]), ModeKeys.TRAIN, {}, config).position is None


def test_tensors_are_made_on_the_cpu_with_keys_of_any_kind():
    inputs = build(lambda: [{"a": tf.zeros([2]), 0: tf.ones([2])}, {0: tf.zeros([2]), "b": 1}])
    assert (set(inputs.features), set(inputs.labels)) == ({"a", 0}, {0, "b"})
    assert inputs.features["a"].device.lower().endswith("cpu:0")
    assert batch_size(inputs.features) == 2


def test_labels_are_dropped_in_predict():
    features = {"x": tf.zeros([2, 3])}
    inputs = build(lambda: (features, tf.zeros([2])), ModeKeys.PREDICT)
    assert inputs.features is features
    assert inputs.labels is None


@pytest.mark.parametrize(
    ("returned", "error", "text"),
    [
        (None, ValueError, "input_fn returned None in mode 'train'"),
        ((1, 2, 3), ValueError, "got 3 parts"),
        ([], ValueError, "got 0"),
        (({"x": iter([1, 2])}, 3), TypeError, r"got the iterator .*from_generator"),
    ],
)
def test_wrong_returns(returned, error, text):
    with pytest.raises(error, match=text):
        build(lambda: returned)


def test_tensor_made_outside_of_input_fn_is_refused(eager_tensor):
    with pytest.raises(TypeError, match=r"Tensor of shape \(2, 3\) that was made outside of it"):
        build(lambda: {"x": eager_tensor})


def test_batch_size_is_known_now_or_at_run_time_or_not_at_all(evaluate):
    assert batch_size({"x": tf.zeros([4, 2]), "y": tf.zeros([4])}) == 4
    features = v1.placeholder(tf.float32, [None, 2])
    assert evaluate(batch_size(features), {features: np.zeros([3, 2])}) == 3
    for nothing in (tf.zeros([]), {}, tf.sparse.from_dense([[1.0]])):
        assert batch_size(nothing) is None


CONFIG = RunConfig()
PARAMS = {"a": 1}


@pytest.mark.parametrize(
    ("input_fn", "expected"),
    [
        (lambda: (), ()),
        (lambda params: params, PARAMS),
        (lambda config, mode: (mode, config), ("train", CONFIG)),
        (lambda **everything: sorted(everything), ["config", "mode", "params"]),
        (lambda batch=3: batch, 3),
        (functools.partial(lambda mode, size: (size, mode), size=5), (5, "train")),
    ],
)
def test_input_fn_receives_the_arguments_that_it_names(input_fn, expected):
    assert call_input_fn(input_fn, "train", PARAMS, CONFIG) == expected


def test_wrong_input_fns():
    with pytest.raises(TypeError, match=r"input_fn .*requires the arguments \['size'\]"):
        call_input_fn(lambda size: size, "train", PARAMS, CONFIG)
    with pytest.raises(TypeError, match=r"input_fn must be a function .* got 3"):
        call_input_fn(3, "train", PARAMS, CONFIG)


def predict_spec(features):
    return EstimatorSpec(ModeKeys.PREDICT, predictions=features)


@pytest.fixture
def features(graph):
    return tf.zeros([2, 3])


def test_model_fn_receives_the_arguments_that_it_names(features):
    received = {}

    def model_fn(features, mode, config, labels):
        received.update(mode=mode, config=config, labels=labels)
        return predict_spec(features)

    spec = call_model_fn(model_fn, features, "y", ModeKeys.PREDICT, PARAMS, CONFIG)
    assert spec.predictions is features
    assert received == {"mode": "infer", "config": CONFIG, "labels": "y"}


@pytest.mark.parametrize(
    ("model_fn", "error", "text"),
    [
        ("model", TypeError, "model_fn must be a function .* got 'model'"),
        (lambda features, size: None, TypeError, r"requires the arguments \['size'\]"),
        (lambda features, labels, mode: None, ValueError, "does not name an argument params"),
    ],
)
def test_wrong_signatures(model_fn, error, text):
    with pytest.raises(error, match=text):
        check_model_fn(model_fn, PARAMS)


def test_model_fn_that_takes_no_labels_or_returns_something_else(features):
    with pytest.raises(ValueError, match="does not name an argument labels"):
        call_model_fn(predict_spec, features, "y", ModeKeys.PREDICT, {}, CONFIG)

    def model_fn(features):
        del features

    with pytest.raises(TypeError, match=r"model_fn .*test_input_batches.py:\d+.* got None"):
        call_model_fn(model_fn, features, None, ModeKeys.PREDICT, {}, CONFIG)
