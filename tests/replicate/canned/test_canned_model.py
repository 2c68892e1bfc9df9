"""Models of parts and a head: variables, heads of users, records, towers."""

import dataclasses
from types import SimpleNamespace
from unittest import mock

import numpy as np
import pytest
import tensorflow as tf

import replicate
from replicate import BinaryClassHead, MultiClassHead, RegressionHead
from replicate.canned.canned_model import classifier_head, on_devices, regressor_head
from replicate.canned.linear import LinearRegressor
from replicate.canned.model_record import Layer, ModelRecord
from replicate.canned.partitioners import is_whole, layer_partitioner, table_partitioner
from replicate.canned.parts import call_logit_fn, check_units, trainable_variables_in
from replicate.spec import ModeKeys

v1 = tf.compat.v1
X = tf.feature_column.numeric_column("x")
FEATURES = {"x": [1.0, 2.0]}
BATCH = {"x": [1.0, 2.0, 3.0, 4.0, 5.0]}, [1.0, -1.0, 2.0, 0.0, 3.0]


class OwnHead:
    """The least that an estimator needs of a head."""

    logits_dimension = 2

    def __init__(self):
        self.calls = []

    def create_estimator_spec(self, **arguments):
        self.calls.append(arguments)
        mode, logits = arguments["mode"], arguments["logits"]
        if mode != "train":
            return replicate.EstimatorSpec(mode, predictions=logits, loss=tf.reduce_sum(logits))
        train_op = arguments["optimizer"].minimize(
            tf.reduce_sum(logits),
            global_step=v1.train.get_global_step(),
            var_list=arguments["trainable_variables"],
        )
        return replicate.EstimatorSpec(mode, loss=tf.reduce_sum(logits), train_op=train_op)


def test_head_gets_keywords_only(train_steps, tmp_path):
    head = OwnHead()
    optimizer = mock.Mock(spec=v1.train.Optimizer, wraps=v1.train.GradientDescentOptimizer(0.5))
    estimator = replicate.DNNEstimator(
        head, [3], [X], str(tmp_path), optimizer=optimizer, batch_norm=True
    )
    train_steps(estimator, FEATURES, np.array([1, 0]))
    (given,) = head.calls
    assert sorted(given) == [
        "features",
        "labels",
        "logits",
        "mode",
        "optimizer",
        "trainable_variables",
        "update_ops",
    ]
    assert given["optimizer"] is optimizer
    assert given["features"] is FEATURES
    assert len(given["trainable_variables"]) == 6
    assert len(given["update_ops"]) == 2
    assert optimizer.minimize.call_count == 1


def test_optimizer_is_not_made_outside_of_training(graph, tmp_path):
    head, make = OwnHead(), mock.Mock()
    estimator = replicate.LinearEstimator(head, [X], str(tmp_path), optimizer=make)
    for mode in ("eval", "infer"):
        with v1.variable_scope("", reuse=v1.AUTO_REUSE):
            estimator.model_fn(FEATURES, None, mode, estimator.config)
    assert not make.called
    assert [call["optimizer"] for call in head.calls] == [None, None]
    assert [call["update_ops"] for call in head.calls] == [[], []]


def test_features_must_be_a_dict(graph, tmp_path):
    estimator = replicate.LinearEstimator(OwnHead(), [X], str(tmp_path))
    with pytest.raises(ValueError, match="features must be a dict"):
        estimator.model_fn(tf.ones([2]), None, "infer", estimator.config)


def test_two_classes_have_a_binary_head():
    head = classifier_head(2, "w", ["a", "b"], "sum")
    assert isinstance(head, BinaryClassHead)
    assert (head.logits_dimension, head.loss_reduction) == (1, "sum")


def test_more_classes_have_a_multi_class_head():
    head = classifier_head(3, None, None, "sum_over_batch_size")
    assert isinstance(head, MultiClassHead)
    assert head.logits_dimension == 3


def test_one_class_is_refused():
    with pytest.raises(ValueError, match="n_classes"):
        classifier_head(1, None, None, "sum")


def test_regressor_predicts_numbers():
    head = regressor_head(4, None, "sum")
    assert isinstance(head, RegressionHead)
    assert (head.logits_dimension, head.loss_reduction) == (4, "sum")


def test_records_are_frozen():
    layer = Layer("dense", "kernel", None, "inputs", "outputs")
    record = ModelRecord((), (layer,), ("kernel",), "sum", "Head")
    for each in (layer, record):
        with pytest.raises(dataclasses.FrozenInstanceError):
            each.variables = ()


def call(logit_fn):
    return call_logit_fn(logit_fn, {"x": 1}, ModeKeys.EVAL, {"rate": 2}, "config")


def test_function_gets_what_it_names(graph):
    logits, given = tf.constant(1.0), {}

    def all_of_them(features, mode, params, config):
        given.update(features=features, mode=mode, params=params, config=config)
        return logits

    assert call(all_of_them) is logits
    assert given == {
        "features": {"x": 1},
        "mode": ModeKeys.EVAL,
        "params": {"rate": 2},
        "config": "config",
    }
    assert call(lambda features: logits) is logits
    assert call(lambda mode, features: {"head": logits}) == {"head": logits}


@pytest.mark.parametrize("result", [1.0, None, {"head": 2}])
def test_other_results_are_refused(result):
    with pytest.raises(ValueError, match="logit_fn '<lambda>' must return a Tensor of logits"):
        call(lambda features: result)


def test_variables_of_a_scope_are_those_below_it(graph):
    wanted = v1.get_variable("dnn/a", [])
    v1.get_variable("dnn_of_mine/a", [])
    v1.get_variable("dnn/steps", [], trainable=False)
    assert trainable_variables_in("dnn") == [wanted]


@pytest.mark.parametrize("units", [{"a": 1}, 2.0, True, None])
def test_units_must_be_an_int(units):
    with pytest.raises(ValueError, match="units must be an int, the logits per example, got"):
        check_units(units)


def config(servers):
    return SimpleNamespace(num_ps_replicas=servers)


def test_variables_stay_whole_without_several_servers():
    for each in (None, config(0), config(1)):
        assert layer_partitioner(each) is None
        assert table_partitioner(each, None) is None


def test_variables_are_cut_into_parts_for_servers():
    shape, dtype = tf.TensorShape([2**20, 64]), tf.float32
    assert layer_partitioner(config(3))(shape=shape, dtype=dtype) == [3, 1]
    assert table_partitioner(config(8), None)(shape=shape, dtype=dtype) == [4, 1]


def test_partitioner_of_the_user_goes_first():
    given = v1.fixed_size_partitioner(5)
    assert table_partitioner(config(8), given) is given
    assert table_partitioner(config(0), given) is given


def test_partitioned_variable_is_not_whole(graph):
    assert is_whole(v1.get_variable("a", [4]))
    parted = v1.get_variable("b", [4], partitioner=v1.fixed_size_partitioner(2))
    assert not is_whole(parted)


def test_without_devices_the_model_fn_is_the_same():
    assert on_devices(train_nothing, None, None) is train_nothing


def train_nothing():
    """A model_fn that is not called."""


@pytest.mark.parametrize(
    "reduction", ["sum", "sum_over_batch_size", "weighted_sum", "weighted_mean"]
)
def test_towers_of_unequal_size_train_as_one(reduction, train_steps, tmp_path):
    """Gradient descent on 5 rows by 2 towers, against NumPy."""
    estimator = LinearRegressor(
        [X],
        str(tmp_path),
        optimizer=lambda: v1.train.GradientDescentOptimizer(0.01),
        loss_reduction=reduction,
        devices=["/cpu:0", "/cpu:1"],
    )
    done = train_steps(estimator, *BATCH, steps=3)
    x, y = np.array(BATCH[0]["x"]), np.array(BATCH[1])
    weight = bias = 0.0
    factor = 1.0 if reduction in ("sum", "weighted_sum") else 1 / 5
    losses = []
    for _ in range(3):
        error = weight * x + bias - y
        losses.append(factor * (error**2).sum())
        weight -= 0.01 * factor * (2 * error * x).sum()
        bias -= 0.01 * factor * (2 * error).sum()
    np.testing.assert_allclose(done.losses, losses, rtol=1e-5)
    np.testing.assert_allclose(
        done.variables["linear/linear_model/x/weights"], [[weight]], rtol=1e-5
    )


def test_device_that_does_not_exist_is_refused(tmp_path):
    with pytest.raises(ValueError, match="Cannot put a tower on /device:GPU:77"):
        LinearRegressor([X], str(tmp_path), devices=["/gpu:77"])
