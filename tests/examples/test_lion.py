"""The update rule against NumPy, and towers that train as one."""

import numpy as np
import pytest
import tensorflow as tf

import replicate
from examples import lion

v1 = tf.compat.v1


@pytest.mark.parametrize("use_resource", [True, False])
def test_three_steps_are_those_of_the_paper(graph, use_resource):
    gradients = np.array([[0.5, -2.0], [-3.0, 1.0], [1.0, 0.25]], np.float32)
    rate, beta1, beta2, decay = 0.1, 0.9, 0.5, 0.25
    gradient = v1.placeholder(tf.float32, [2])
    weights = v1.get_variable(
        "weights", initializer=tf.constant([1.0, -1.0]), use_resource=use_resource
    )
    optimizer = lion.Lion(rate, beta1, beta2, decay)
    update = optimizer.apply_gradients([(gradient, weights)])
    w, m = np.array([1.0, -1.0]), np.zeros(2)
    with v1.Session() as session:
        session.run(v1.global_variables_initializer())
        for g in gradients:
            session.run(update, {gradient: g})
            w = w - rate * (np.sign(beta1 * m + (1 - beta1) * g) + decay * w)
            m = beta2 * m + (1 - beta2) * g
            np.testing.assert_allclose(session.run(weights), w, rtol=1e-6)
        momentum = optimizer.get_slot(weights, "momentum")
        np.testing.assert_allclose(session.run(momentum), m, rtol=1e-6)


def test_two_towers_take_the_step_of_one(graph, noise):
    check = replicate.check_replication(
        lion.model_fn,
        lambda: tf.data.Dataset.from_tensors(tuple(noise(6))),
        devices=["/cpu:0", "/cpu:1"],
        params={"learning_rate": 0.01},
        loss_reduction=v1.losses.Reduction.MEAN,
        output=None,
    )
    assert check.worst.relative < 1e-5
