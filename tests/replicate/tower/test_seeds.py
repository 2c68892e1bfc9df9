import numpy as np
import pytest
import tensorflow as tf

import replicate
from replicate.tower.seeds import step_seed

v1 = tf.compat.v1


def model_fn(features, labels, mode, params):
    """A linear model whose inputs are dropped at random, by the function in params."""
    weights = v1.get_variable("w", [4, 1], initializer=v1.ones_initializer())
    outputs = tf.matmul(params["dropout"](features), weights)
    loss = tf.reduce_mean(tf.square(outputs - labels))
    train_op = v1.train.GradientDescentOptimizer(0.1).minimize(loss, v1.train.get_global_step())
    return replicate.EstimatorSpec(mode, loss=loss, train_op=train_op)


def input_fn():
    features = np.random.RandomState(0).randn(6, 4).astype(np.float32)
    return tf.data.Dataset.from_tensors((features, features[:, :1])).repeat()


def stateless(inputs):
    return tf.nn.experimental.stateless_dropout(inputs, rate=0.5, seed=step_seed(3))


def stateful(inputs):
    return tf.nn.dropout(inputs, rate=0.5, seed=3)


def weights(model_dir, dropout, *steps):
    config = replicate.RunConfig(progress="off")
    estimator = replicate.Estimator(model_fn, str(model_dir), config, {"dropout": dropout})
    for last in steps:
        estimator.train(input_fn, max_steps=last)
    return estimator.get_variable_value("w")


@pytest.mark.parametrize(("dropout", "is_exact"), [(stateless, True), (stateful, False)])
def test_resumed_training_draws_the_same_numbers(tmp_path, dropout, is_exact):
    whole = weights(tmp_path / "whole", dropout, 6)
    parts = weights(tmp_path / "parts", dropout, 2, 6)
    assert (whole == parts).all() == is_exact


def test_seed_differs_between_steps_and_operations(graph):
    step = v1.train.create_global_step()
    seeds = [step_seed(1), step_seed(2)]
    with v1.Session() as session:
        session.run(step.initializer)
        first = session.run(seeds)
        session.run(step.assign_add(1))
        second = session.run(seeds)
    assert len({tuple(seed) for seed in [*first, *second]}) == 4


def test_towers_draw_different_numbers(tmp_path):
    found = []

    def towered(features, labels, mode):
        found.append(step_seed(1))
        weight = v1.get_variable("w", [4, 1])
        loss = tf.reduce_mean(tf.square(features @ weight - labels))
        optimizer = replicate.TowerOptimizer(v1.train.GradientDescentOptimizer(0.1))
        train_op = optimizer.minimize(loss, global_step=v1.train.get_global_step())
        return replicate.EstimatorSpec(mode, loss=loss, train_op=train_op)

    with tf.Graph().as_default():
        step = v1.train.create_global_step()
        devices = ["/cpu:0", "/cpu:1"]
        replicated = replicate.replicate_model_fn(towered, devices=devices)
        replicated(tf.ones([4, 4]), tf.ones([4, 1]), "train")
        with v1.Session() as session:
            session.run(step.initializer)
            seeds = session.run(found)
    assert len({tuple(seed) for seed in seeds}) == 2


@pytest.mark.parametrize("op_seed", [-1, 2**31, 1.5, None])
def test_wrong_op_seed(graph, op_seed):
    v1.train.create_global_step()
    with pytest.raises(ValueError, match="op_seed must be a whole number"):
        step_seed(op_seed)


def test_graph_without_a_step(graph):
    with pytest.raises(ValueError, match="has no global step"):
        step_seed(1)
