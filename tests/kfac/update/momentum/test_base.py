import pytest
import tensorflow as tf

from kfac.schedules import called_once
from kfac.update.momentum import AdamMomentum, RegularMomentum

v1 = tf.compat.v1


@pytest.mark.parametrize("momentum", [None, 0, 0.0])
def test_without_momentum_there_are_no_velocities(inputs, session, momentum, damped, gradients):
    rule = AdamMomentum(0.1, momentum, None, None)
    assert not rule.keeps_velocities
    step = rule.step(inputs._replace(velocities=[]))
    assert step.velocities == []
    raw = session.run(step.raw)
    for r, g, m in zip(raw, gradients, damped, strict=True):
        assert r == pytest.approx(g / m)


def test_momentum_that_is_not_a_number_needs_velocities(graph):
    assert RegularMomentum(0.1, tf.constant(0.0), None, None).keeps_velocities


def test_settings_are_shown_as_they_were_given(graph):
    rate = tf.constant(0.1)
    rule = RegularMomentum(called_once(lambda: rate), 0.9, None, None)
    assert (rule.learning_rate, rule.momentum) == (rate, 0.9)
    assert (rule.variables, rule.summaries) == ([], {})


def test_rows_stay_rows_without_momentum(graph, inputs):
    row = tf.IndexedSlices(tf.constant([[5.0]]), tf.constant([1]), tf.constant([3, 1]))
    alone = inputs._replace(
        gradients=[row], velocities=[], precondition=list, damping=tf.constant(0.5)
    )
    for rule in (AdamMomentum(0.1, None, 1.0, None), RegularMomentum(0.1, None, 1.0, None)):
        assert isinstance(rule.step(alone).raw[0], tf.IndexedSlices)
