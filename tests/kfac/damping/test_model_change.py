import numpy as np
import tensorflow as tf

from kfac.damping.model_change import ModelChange
from kfac.damping.rule import StepPrediction
from kfac.state import assign_all
from replicate.saved.optional_state import optional_states

v1 = tf.compat.v1


def test_for_every_step(graph, session):
    change = ModelChange("float32", every_step=True)
    assert change.variables == []
    is_made, value = v1.placeholder(tf.bool, []), v1.placeholder(tf.float64, [])
    compute = change.known(lambda: tf.identity(value))
    assert compute() is compute()
    keep = assign_all(change.kept(is_made, None, compute))
    (variable,) = change.variables
    session.run(variable.initializer)
    assert np.isnan(session.run(change.summaries["qmodel_change"]))
    session.run(keep, {is_made: True, value: -2.0})
    session.run(keep, {is_made: False, value: -3.0})
    assert session.run(variable) == -2.0


def test_for_steps_that_are_judged(graph, session):
    change = ModelChange("float32", every_step=False)
    assert change.kept(tf.constant(True), None, lambda: tf.constant(1.0)) == []
    due = v1.placeholder(tf.bool, [])
    prediction = StepPrediction(due, tf.constant(5.0), tf.constant(-2.0))
    keep = assign_all(change.kept(tf.constant(True), prediction, lambda: None))
    session.run(change.variable.initializer)
    session.run(keep, {due: False})
    assert np.isnan(session.run(change.variable))
    session.run(keep, {due: True})
    assert session.run(change.variable) == -2.0


def test_checkpoints_may_lack_it(graph):
    change = ModelChange("float32", every_step=True)
    change.make_variables()
    (state,) = optional_states()
    assert state.variables == [change.variable]
