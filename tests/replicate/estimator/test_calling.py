import functools

import pytest
import tensorflow as tf

from replicate.estimator.calling import call_input_fn, call_model_fn, check_model_fn
from replicate.estimator.run_config import RunConfig
from replicate.spec import EstimatorSpec, ModeKeys

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

    with pytest.raises(TypeError, match=r"model_fn .*test_calling.py:\d+.* got None"):
        call_model_fn(model_fn, features, None, ModeKeys.PREDICT, {}, CONFIG)
