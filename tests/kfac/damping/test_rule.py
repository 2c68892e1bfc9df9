import math

import tensorflow as tf

from kfac.damping.rule import GivenDamping
from kfac.schedules import called_once

v1 = tf.compat.v1


def test_given_damping_is_what_was_given(graph, session):
    variable = v1.get_variable("damping", initializer=0.1)
    assert GivenDamping(variable).damping is variable
    rule = GivenDamping(called_once(lambda: tf.constant(0.2)))
    assert session.run(rule.read()) == session.run(rule.damping)
    assert math.isnan(rule.rho)
    assert list(rule.summaries) == ["damping"]


def test_given_damping_judges_nothing(graph, session):
    rule = GivenDamping(0.1)
    rule.make_variables()
    rule.check_variables([])
    session.run(rule.before_step(tf.constant(0), lambda: None, dict))
    prediction = rule.predict(tf.constant(0), tf.constant(True), lambda: None, tf.float32)
    assert prediction is None
    assert rule.verdict(prediction, dict) == ([], None)
    assert v1.global_variables() == rule.variables == []
