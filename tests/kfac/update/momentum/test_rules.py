"""Momentum with a given rate, norm constraint and decay of weights; the choice of a rule."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from kfac.linalg.vectors import no_packing
from kfac.settings import KfacSettings
from kfac.update.momentum import AdamMomentum, RegularMomentum, make_momentum
from kfac.update.momentum.rules import add_weight_decay, norm_constraint_coefficient

v1 = tf.compat.v1


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
        gradients=[row],
        gradient_parts=[row],
        velocities=[],
        packing=no_packing([row]),
        precondition=list,
        damping=tf.constant(0.5),
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


GIVEN = KfacSettings(learning_rate=0.1, damping=1.0)


def changed(settings=GIVEN, **changes):
    return dataclasses.replace(settings, **changes)


CHOSEN = changed(learning_rate=None, momentum=None)


@pytest.mark.parametrize(
    ("momentum_type", "settings", "message"),
    [
        ("nesterov", GIVEN, r"momentum_type='nesterov'. Accepted are 'regular', 'adam', 'qmodel'"),
        ("regular", CHOSEN, r"learning_rate=None with momentum_type='regular'. Pass a number"),
        ("adam", changed(qmodel_update_rescale=1.0), r"qmodel_update_rescale=1.0 does not go with"),
        ("qmodel", changed(CHOSEN, learning_rate=1), r"learning_rate=1 does not go with .*qmodel"),
        ("qmodel", changed(CHOSEN, norm_constraint=1), r"norm_constraint=1 does not go with"),
        ("qmodel_fixedmu", GIVEN, r"learning_rate=0.1 does not go with .*'qmodel_fixedmu'"),
        ("qmodel_fixedmu", CHOSEN, r"momentum=None with momentum_type='qmodel_fixedmu'"),
    ],
)
def test_what_does_not_go_together(momentum_type, settings, message):
    with pytest.raises(ValueError, match=message):
        make_momentum(changed(settings, momentum_type=momentum_type), None)
