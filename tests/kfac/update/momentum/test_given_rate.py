"""Momentum with a given rate: of both kinds, with norm constraint and decay of weights."""

import numpy as np
import pytest
import tensorflow as tf

from kfac.update.momentum import AdamMomentum, RegularMomentum
from kfac.update.momentum.base import add_weight_decay
from kfac.update.momentum.given_rate import norm_constraint_coefficient

v1 = tf.compat.v1


def test_velocities_are_preconditioned(run_step, gradients, velocities, damped, quadratic_change):
    raw, rate, new, change = run_step(RegularMomentum(0.2, 0.9, None, 0.1))
    for r, n, g, v, m in zip(raw, new, gradients, velocities, damped, strict=True):
        np.testing.assert_allclose(n, 0.9 * v + g / m, rtol=1e-14)
        np.testing.assert_allclose(r, n + 0.1, rtol=1e-14)
    assert rate == 0.2
    update = [-0.2 * n for n in new]
    assert change == pytest.approx(quadratic_change(update, surplus=0.4), rel=1e-12)


def test_velocities_are_gradients(run_step, gradients, velocities, damped, quadratic_change):
    raw, rate, new, change = run_step(AdamMomentum(0.2, 0.9, None, 0.1))
    for r, n, g, v, m in zip(raw, new, gradients, velocities, damped, strict=True):
        np.testing.assert_allclose(n, 0.9 * v + g, rtol=1e-14)
        np.testing.assert_allclose(r, n / m + 0.1, rtol=1e-14)
    assert rate == 0.2
    update = [-0.2 * n / m for n, m in zip(new, damped, strict=True)]
    assert change == pytest.approx(quadratic_change(update), rel=1e-12)


def test_without_momentum_there_are_no_velocities(inputs, session, damped, gradients):
    assert RegularMomentum(0.1, tf.constant(0.0), None, None).keeps_velocities
    assert not AdamMomentum(0.1, None, None, None).keeps_velocities
    rule = AdamMomentum(0.1, 0.0, None, None)
    assert not rule.keeps_velocities
    step = rule.step(inputs._replace(velocities=[]))
    assert step.velocities == []
    raw = session.run(step.raw)
    for r, g, m in zip(raw, gradients, damped, strict=True):
        assert r == pytest.approx(g / m)


def test_rows_stay_rows_without_momentum(graph, inputs):
    row = tf.IndexedSlices(tf.constant([[5.0]]), tf.constant([1]), tf.constant([3, 1]))
    alone = inputs._replace(
        gradients=[row], velocities=[], precondition=list, damping=tf.constant(0.5)
    )
    for rule in (AdamMomentum(0.1, None, 1.0, None), RegularMomentum(0.1, None, 1.0, None)):
        assert isinstance(rule.step(alone).raw[0], tf.IndexedSlices)


def test_coefficient_of_the_constraint(graph, session):
    """A long step is cut to it, a short one left alone; no step is no division by zero."""
    squares, norms = tf.constant([174.0, 174.0, 0.0, -1.0]), tf.constant([0.5, 10.0, 0.5, 0.5])
    found = session.run(
        [
            norm_constraint_coefficient(s, tf.constant(0.1), n)
            for s, n in zip(tf.unstack(squares), tf.unstack(norms), strict=True)
        ]
    )
    np.testing.assert_allclose(found, [np.sqrt(0.5 / 1.74), 1, 1, 1], rtol=1e-6)


@pytest.mark.parametrize("use_resource", [True, False])
def test_all_weights_decay(graph, session, use_resource):
    with v1.variable_scope("", use_resource=use_resource):
        dense = v1.get_variable("dense", initializer=tf.constant([1.0, -2.0], tf.float64))
        table = v1.get_variable("table", initializer=tf.constant([[1.0], [2.0], [4.0]]))
    row = tf.IndexedSlices(tf.constant([[5.0]]), tf.constant([1]), tf.constant([3, 1]))
    vectors = [tf.constant([3.0, 3.0], tf.float64), row]
    session.run(v1.global_variables_initializer())
    found = session.run(add_weight_decay(vectors, lambda: [dense, table], lambda: 0.1))
    np.testing.assert_allclose(found[0], [3.1, 2.8], rtol=1e-15)
    np.testing.assert_allclose(found[1], [[0.1], [5.2], [0.4]], rtol=1e-6)
