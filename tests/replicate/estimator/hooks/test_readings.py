import numpy as np
import pytest
import tensorflow as tf

from replicate.estimator.hooks.readings import StepReadings

v1 = tf.compat.v1


def read(readings, runs):
    """The step of a new session, and steps and losses after each run in it."""
    readings.begin()
    with v1.Session() as session:
        session.run(v1.global_variables_initializer())
        readings.after_create_session(session)
        start, found = readings.step, []
        assert readings.loss is None
        for _ in range(runs):
            readings.take(session.run(readings.fetch))
            found.append((readings.step, readings.loss))
    return start, found


@pytest.mark.parametrize("use_resource", [True, False])
def test_step_is_the_one_after_the_run(graph, use_resource):
    v1.get_variable_scope().set_use_resource(use_resource)
    step = v1.train.create_global_step()
    loss = tf.cast(step.read_value(), tf.float32) * 2
    with tf.control_dependencies([loss]):
        step_op = v1.assign_add(step, 3).op
    assert read(StepReadings(step_op, loss), 3) == (0, [(3, 0.0), (6, 6.0), (9, 12.0)])


def test_another_counter_than_the_global_step(graph):
    v1.train.create_global_step()
    counter = v1.get_variable("counter", initializer=np.int64(2**40))
    readings = StepReadings(v1.assign_add(counter, 1).op, tf.constant(0.5), counter)
    assert read(readings, 1) == (2**40, [(2**40 + 1, 0.5)])
