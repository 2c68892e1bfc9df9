"""Idioms of old model_fns that must mean on several towers what they mean on one."""

import numpy as np
import pytest
import tensorflow as tf

import replicate

v1 = tf.compat.v1

ROWS = np.random.default_rng(0).normal(size=[8, 2]).astype(np.float32)
START = np.array([5.0, 6.0], np.float32)


def weighted_loss(features):
    with v1.variable_scope("net", regularizer=lambda w: 0.5 * tf.reduce_sum(tf.square(w))):
        weights = v1.get_variable("w", initializer=tf.zeros([2]))
    v1.losses.mean_squared_error(
        tf.ones([tf.shape(features)[0]]), tf.linalg.matvec(features, weights)
    )
    return weights


def minimize(loss, rate=0.1):
    optimizer = replicate.TowerOptimizer(v1.train.GradientDescentOptimizer(rate))
    return optimizer.minimize(loss, v1.train.get_or_create_global_step())


def train(model_fn, towers, steps=3, **how):
    """Returns all global variables after each step, the state before the first one included."""
    with tf.Graph().as_default():
        devices = [f"/cpu:{index}" for index in range(towers)]
        replicated = replicate.replicate_model_fn(model_fn, devices=devices, **how)
        spec = replicated(tf.constant(ROWS), None, "train")
        with v1.Session() as session:
            session.run([v1.global_variables_initializer(), v1.local_variables_initializer()])
            states = []
            for step in range(steps + 1):
                if step:
                    session.run(spec.train_op)
                states.append({v.op.name: session.run(v) for v in v1.global_variables()})
            return states


def total_loss_model_fn(features, labels, mode):
    weighted_loss(features)
    loss = v1.losses.get_total_loss()
    return replicate.EstimatorSpec(mode, loss=loss, train_op=minimize(loss))


def test_total_loss_counts_losses_and_regularization_once():
    one, many = train(total_loss_model_fn, 1), train(total_loss_model_fn, 4)
    np.testing.assert_allclose(many[-1]["net/w"], one[-1]["net/w"], rtol=1e-5)
    step = 0.1 * (ROWS.T @ (ROWS @ np.zeros(2) - 1)) * 2 / len(ROWS)
    np.testing.assert_allclose(one[1]["net/w"], -step, rtol=1e-5)
    assert np.abs(one[2]["net/w"] - one[1]["net/w"]).max() > 1e-3


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    path = str(tmp_path_factory.mktemp("warm") / "model.ckpt")
    with tf.Graph().as_default(), v1.Session() as session:
        v1.get_variable("net/w", initializer=tf.constant(START))
        session.run(v1.global_variables_initializer())
        v1.train.Saver().save(session, path)
    return path


@pytest.mark.parametrize(("in_all_towers", "names"), [(True, "net/w"), (False, "net/")])
def test_warm_start_inside_the_model_fn_beside_a_moving_average(checkpoint, in_all_towers, names):
    """The average starts at the values of the checkpoint, and moves once a step."""

    def model_fn(features, labels, mode):
        weights = weighted_loss(features)
        if in_all_towers or replicate.current_tower().is_first:
            v1.train.init_from_checkpoint(checkpoint, {names: names})
        loss = v1.losses.get_total_loss()
        with v1.control_dependencies([minimize(loss)]):
            train_op = v1.train.ExponentialMovingAverage(0.5).apply([weights])
        return replicate.EstimatorSpec(mode, loss=loss, train_op=train_op)

    states = train(model_fn, 4)
    assert sorted(states[0]) == ["global_step", "net/w", "net/w/ExponentialMovingAverage"]
    np.testing.assert_array_equal(states[0]["net/w"], START)
    average = states[0]["net/w/ExponentialMovingAverage"]
    np.testing.assert_array_equal(average, START)
    for state in states[1:]:
        average = 0.5 * average + 0.5 * state["net/w"]
        np.testing.assert_allclose(state["net/w/ExponentialMovingAverage"], average, rtol=1e-5)


class CountApplied(v1.train.GradientDescentOptimizer):
    """Stands for SyncReplicasOptimizer: its hook insists that this very object has applied."""

    applied = 0

    def apply_gradients(self, *args, **kwargs):
        self.applied += 1
        return super().apply_gradients(*args, **kwargs)


def test_hooks_come_from_the_tower_whose_optimizer_applies():
    made = []

    def model_fn(features, labels, mode):
        weighted_loss(features)
        inner = CountApplied(0.1)
        hook = v1.train.SessionRunHook()
        made.append((inner, hook))
        loss = v1.losses.get_total_loss()
        train_op = replicate.TowerOptimizer(inner).minimize(loss)
        return replicate.EstimatorSpec(mode, loss=loss, train_op=train_op, training_hooks=[hook])

    with tf.Graph().as_default():
        devices = ["/cpu:0", "/cpu:1"]
        spec = replicate.replicate_model_fn(model_fn, devices=devices)(ROWS, None, "train")
    assert [inner.applied for inner, _ in made] == [0, 1]
    assert list(spec.training_hooks) == [made[1][1]]
