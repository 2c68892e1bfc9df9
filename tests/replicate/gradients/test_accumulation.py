"""Several batches, one update."""

import numpy as np
import pytest
import tensorflow as tf

from replicate.gradients.tower_optimizer import TowerOptimizer
from tests.replicate.gradients.towers import in_towers

v1 = tf.compat.v1

BATCHES = np.random.default_rng(0).normal(size=[6, 4, 3]).astype(np.float32)


def loss_of(batch):
    weights = v1.get_variable("w", initializer=tf.ones([3]))
    bias = v1.get_variable("b", initializer=0.5)
    return tf.reduce_mean(tf.square(tf.linalg.matvec(batch, weights) + bias))


OPTIMIZERS = {
    "momentum": lambda: v1.train.MomentumOptimizer(0.1, 0.9),
    "adam": lambda: v1.train.AdamOptimizer(0.1),
}


def run_all(train_op, batch, batches):
    """Runs a step per batch; returns w, b and the global step after each of them."""
    watched = [v for v in v1.global_variables() if v.op.name in ("b", "w", "global_step")]
    with v1.Session() as session:
        session.run(v1.global_variables_initializer())
        history = []
        for values in batches:
            session.run(train_op, {batch: values})
            history.append(session.run({v.op.name: v for v in watched}))
        return history


def accumulated(make_optimizer, steps, towers):
    with tf.Graph().as_default():
        global_step = v1.train.get_or_create_global_step()
        batch = v1.placeholder(tf.float32, [4, 3])
        shards = tf.split(batch, towers)

        def model(index):
            optimizer = TowerOptimizer(make_optimizer, accumulate_steps=steps)
            return optimizer.minimize(loss_of(shards[index]), global_step)

        return run_all(in_towers(model, towers), batch, BATCHES)


def whole(make_optimizer, steps):
    """One step on what `accumulated` sees in `steps` steps."""
    with tf.Graph().as_default():
        global_step = v1.train.get_or_create_global_step()
        batch = v1.placeholder(tf.float32, [None, 3])
        train_op = make_optimizer().minimize(loss_of(batch), global_step)
        return run_all(train_op, batch, BATCHES.reshape(len(BATCHES) // steps, -1, 3))


@pytest.mark.parametrize(("name", "steps", "towers"), [("momentum", 2, 1), ("adam", 3, 2)])
def test_accumulated_steps_equal_one_step_on_all_their_rows(name, steps, towers):
    history = accumulated(OPTIMIZERS[name], steps, towers)
    expected = whole(OPTIMIZERS[name], steps)
    assert [after["global_step"] for after in history] == [(k + 1) // steps for k in range(6)]
    np.testing.assert_array_equal(history[0]["w"], np.ones(3))
    np.testing.assert_array_equal(history[steps]["w"], history[steps - 1]["w"])
    for got, want in zip(history[steps - 1 :: steps], expected, strict=True):
        np.testing.assert_allclose(got["w"], want["w"], rtol=2e-6, atol=2e-6)
        np.testing.assert_allclose(got["b"], want["b"], rtol=2e-6, atol=2e-6)


def test_two_optimizers_keep_their_own_totals(graph):
    loss = loss_of(BATCHES[0])
    for _ in range(2):
        TowerOptimizer(v1.train.GradientDescentOptimizer(1.0), accumulate_steps=2).minimize(loss)
    names = {v.op.name for v in v1.global_variables()}
    assert {"gradient_accumulation/w", "gradient_accumulation_1/w"} <= names
