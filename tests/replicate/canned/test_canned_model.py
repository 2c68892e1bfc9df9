"""Models of parts and a head: variables, heads of users, records, towers."""

from types import SimpleNamespace
from unittest import mock

import numpy as np
import pytest
import tensorflow as tf

import replicate
from replicate import BinaryClassHead, MultiClassHead, RegressionHead
from replicate.canned.canned_model import classifier_head, regressor_head
from replicate.canned.linear import LinearRegressor
from replicate.canned.partitioners import is_whole, layer_partitioner, table_partitioner
from replicate.canned.parts import call_logit_fn, trainable_variables_in
from replicate.spec import ModeKeys

v1 = tf.compat.v1
X = tf.feature_column.numeric_column("x")
FEATURES = {"x": [1.0, 2.0]}


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
    names = "features labels logits mode optimizer trainable_variables update_ops"
    assert sorted(given) == names.split()
    assert (given["optimizer"], given["features"]) == (optimizer, FEATURES)
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
    with pytest.raises(ValueError, match="features must be a dict"):
        estimator.model_fn(tf.ones([2]), None, "infer", estimator.config)


def test_heads_of_classifiers_and_regressors():
    for head, kind, dimension in [
        (classifier_head(2, "w", ["a", "b"], "sum"), BinaryClassHead, 1),
        (classifier_head(3, None, None, "sum"), MultiClassHead, 3),
        (regressor_head(4, None, "sum"), RegressionHead, 4),
    ]:
        assert isinstance(head, kind)
        assert (head.logits_dimension, head.loss_reduction) == (dimension, "sum")


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
    for result in (1.0, None, {"head": 2}):
        with pytest.raises(ValueError, match="logit_fn '<lambda>' must return a Tensor of logits"):
            call(lambda features, result=result: result)


def test_variables_of_a_scope_are_those_below_it(graph):
    wanted = v1.get_variable("dnn/a", [])
    v1.get_variable("dnn_of_mine/a", [])
    v1.get_variable("dnn/steps", [], trainable=False)
    assert trainable_variables_in("dnn") == [wanted]


def config(servers):
    return SimpleNamespace(num_ps_replicas=servers)


def test_variables_are_cut_into_parts_for_several_servers(graph):
    shape, dtype = tf.TensorShape([2**20, 64]), tf.float32
    assert layer_partitioner(config(3))(shape=shape, dtype=dtype) == [3, 1]
    assert table_partitioner(config(8), None)(shape=shape, dtype=dtype) == [4, 1]
    for each in (None, config(0), config(1)):
        assert layer_partitioner(each) is None
        assert table_partitioner(each, None) is None
    given = v1.fixed_size_partitioner(2)
    for each in (config(8), config(0)):
        assert table_partitioner(each, given) is given
    assert is_whole(v1.get_variable("a", [4]))
    assert not is_whole(v1.get_variable("b", [4], partitioner=given))


@pytest.mark.parametrize("reduction", ["sum", "weighted_mean"])
def test_towers_of_unequal_size_train_as_one(reduction, train_steps, tmp_path):
    batch = {"x": [1.0, 2.0, 3.0, 4.0, 5.0]}, [1.0, -1.0, 2.0, 0.0, 3.0]
    settings = {"optimizer": "SGD", "loss_reduction": reduction}
    one, two = (
        train_steps(LinearRegressor([X], str(tmp_path), devices=devices, **settings), *batch, 3)
        for devices in (None, ["/cpu:0", "/cpu:1"])
    )
    np.testing.assert_allclose(two.losses, one.losses, rtol=1e-5)
    assert one.losses[0] == 15 / (1 if reduction == "sum" else 5)
    name = "linear/linear_model/x/weights"
    np.testing.assert_allclose(two.variables[name], one.variables[name], rtol=1e-5)
