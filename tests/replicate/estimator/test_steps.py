import pytest
import tensorflow as tf

from replicate.estimator.steps import StepReadings, StopHook

v1 = tf.compat.v1


def run(train_op, loss, runs, creator=None, **limits):
    """Steps and losses that are read in each run, until the stop or `runs` runs."""
    readings = StepReadings(train_op, loss)
    hooks = [readings, StopHook(readings, **limits)]
    read = []
    with v1.train.MonitoredSession(creator, hooks) as session:
        assert readings.loss is None
        start = readings.step
        while not session.should_stop() and len(read) < runs:
            session.run(train_op)
            read.append((readings.step, readings.loss))
    return start, read


@pytest.mark.parametrize("use_resource", [True, False])
def test_step_is_the_one_after_the_run(graph, use_resource):
    v1.get_variable_scope().set_use_resource(use_resource)
    step = v1.train.create_global_step()
    loss = tf.cast(step.read_value(), tf.float32) * 2
    with tf.control_dependencies([loss]):
        train_op = v1.assign_add(step, 3).op
    assert run(train_op, loss, 3) == (0, [(3, 0.0), (6, 6.0), (9, 12.0)])


@pytest.mark.parametrize(
    ("limits", "runs"),
    [({"num_steps": 2}, 2), ({"last_step": 7}, 2), ({"last_step": 5}, 1), ({}, 9)],
)
def test_training_ends_at_its_last_step(graph, limits, runs):
    step = v1.train.create_global_step()
    train_op = v1.assign_add(step, 1).op
    started = v1.train.Scaffold(init_op=step.assign(5))
    creator = v1.train.ChiefSessionCreator(started)
    start, read = run(train_op, tf.constant(1.0), 9, creator, **limits)
    assert (start, len(read)) == (5, runs)
