"""Heads of users in canned models: what they are called with."""

from unittest import mock

import numpy as np
import pytest
import tensorflow as tf

import replicate

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
