"""Settings and training of two parts."""

from types import SimpleNamespace
from unittest import mock

import pytest
import tensorflow as tf

import replicate
from replicate.canned.combined_model import CombinedSettings
from replicate.canned.linear_part import LinearPart
from replicate.canned.network import Network

v1 = tf.compat.v1
X = tf.feature_column.numeric_column("x")


def settings(**changes):
    given = {
        "linear_feature_columns": [tf.feature_column.numeric_column(f"x{i}") for i in range(4)],
        "linear_optimizer": "Ftrl",
        "dnn_feature_columns": X,
        "dnn_optimizer": "Adagrad",
        "dnn_hidden_units": [2],
        "dnn_activation_fn": tf.nn.relu,
        "dnn_dropout": None,
        "batch_norm": False,
        "linear_sparse_combiner": "sum",
        "input_layer_partitioner": None,
    }
    return CombinedSettings(**{**given, **changes})


def test_network_comes_first():
    network, linear = settings().parts("Owner")
    assert isinstance(network.part, Network)
    assert isinstance(linear.part, LinearPart)
    assert (network.optimizer.argument, linear.optimizer.argument) == (
        "dnn_optimizer",
        "linear_optimizer",
    )
    assert (network.optimizer.learning_rate, linear.optimizer.learning_rate) == (0.001, 0.005)


def test_rate_of_the_linear_model_falls_with_its_columns():
    def column(name):
        return SimpleNamespace(name=name, get_dense_tensor=None, variable_shape=None)

    columns = [column(f"x{index}") for index in range(250**2)]
    (linear,) = settings(linear_feature_columns=columns, dnn_feature_columns=None).parts("Owner")
    assert linear.optimizer.learning_rate == 1 / 250


def test_optimizers_minimize_without_a_global_step(train_steps, tmp_path):
    optimizers = [
        mock.Mock(spec=v1.train.Optimizer, wraps=v1.train.GradientDescentOptimizer(0.1))
        for _ in range(2)
    ]
    estimator = replicate.DNNLinearCombinedRegressor(
        str(tmp_path),
        linear_feature_columns=[X],
        linear_optimizer=optimizers[0],
        dnn_feature_columns=[X],
        dnn_optimizer=optimizers[1],
        dnn_hidden_units=[2],
    )
    train_steps(estimator, {"x": [1.0]}, [1.0], steps=2)
    for optimizer, variables in zip(optimizers, (2, 4), strict=True):
        (call,) = optimizer.minimize.call_args_list
        assert set(call.kwargs) == {"var_list"}
        assert len(call.kwargs["var_list"]) == variables


@pytest.mark.parametrize("wrap", [lambda each: each, replicate.TowerOptimizer])
def test_synchronous_optimizers_are_refused_for_two_parts(wrap, train_steps, tmp_path):
    def make():
        return wrap(v1.train.SyncReplicasOptimizer(v1.train.GradientDescentOptimizer(0.1), 1))

    estimator = replicate.DNNLinearCombinedRegressor(
        str(tmp_path),
        linear_feature_columns=[X],
        linear_optimizer=make,
        dnn_feature_columns=[X],
        dnn_hidden_units=[2],
    )
    with pytest.raises(ValueError, match="cannot train two parts by a SyncReplicasOptimizer"):
        train_steps(estimator, {"x": [1.0]}, [1.0])
