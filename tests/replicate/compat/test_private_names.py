"""Private names of tf.estimator that libraries use."""

import functools

import numpy as np
import pytest
import tensorflow as tf

import replicate
from replicate.compat import private_names as private

v1 = tf.compat.v1


def test_heads_sum_the_loss(graph, evaluate):
    for make, units in (
        (private.binary_logistic_head, 1),
        (lambda: private.multi_class_head(3), 3),
        (private.regression_head, 1),
    ):
        loss = make().loss(tf.ones([4, 1], tf.int64), tf.zeros([4, units]), {})
        one = make().loss(tf.ones([1, 1], tf.int64), tf.zeros([1, units]), {})
        total, single = evaluate([loss, one])
        np.testing.assert_allclose(total, 4 * single, rtol=1e-6)


def test_keys_are_those_of_the_heads(graph):
    keys = private.PredictionKeys
    head = replicate.MultiClassHead(3)
    assert {keys.LOGITS, keys.PROBABILITIES, keys.CLASS_IDS, keys.CLASSES} <= set(
        head.predictions(tf.zeros([2, 3]))
    )
    metrics = replicate.BinaryClassHead(thresholds=[0.5]).metrics()
    names = private.MetricKeys
    assert {names.LOSS_MEAN, names.ACCURACY, names.AUC_PR, names.PREDICTION_MEAN} <= set(metrics)
    assert names.RECALL_AT_THRESHOLD % 0.5 in metrics


def test_optimizers_by_name(graph):
    made = private.get_optimizer_instance("Adagrad", 0.3)
    assert isinstance(made, v1.train.AdagradOptimizer)
    given = v1.train.AdamOptimizer()
    assert private.get_optimizer_instance(given) is given
    assert private.get_optimizer_instance(lambda: given) is given


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: private.get_optimizer_instance("Adam"), "by its name: give learning_rate"),
        (lambda: private.parse_input_fn_result((1, 2, 3)), "got 3 values"),
        (
            lambda: private.model_to_estimator(keras_model=None, use_v2_estimator=True),
            "keras_model or keras_model_path, got neither",
        ),
    ],
)
def test_messages(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_result_of_an_input_fn_is_read(graph):
    data = tf.data.Dataset.from_tensors(({"x": [1.0]}, [2.0]))
    features, labels, hooks = private.parse_input_fn_result(data)
    with v1.train.MonitoredSession(hooks=hooks) as session:
        assert session.run([features["x"], labels]) == [[1.0], [2.0]]
    assert private.parse_input_fn_result({"x": 1}) == ({"x": 1}, None, [])
    assert private.parse_input_fn_result((1, 2)) == (1, 2, [])


def test_arguments_of_functions_are_named():
    class Model:
        def __call__(self, features, labels=None, **rest):
            pass

        def method(self, mode):
            pass

    assert private.fn_args(Model()) == ("features", "labels")
    assert private.fn_args(Model().method) == ("mode",)
    assert private.fn_args(functools.partial(lambda a, b, c: a, 1, b=2)) == ("c",)
