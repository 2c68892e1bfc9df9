import pytest
import tensorflow as tf

from kfac.update.asynchronous_refresh import RefreshThreads
from kfac.update.step import StepConditions

v1 = tf.compat.v1


class Step:
    """Keeps the conditions that it is applied with."""

    def apply(self, pairs, conditions, *_):
        self.conditions = conditions
        return tf.no_op()


class Curvature:
    """Ops that count how often averages and inverses are updated."""

    def __init__(self):
        self.counts = v1.get_variable("counts", initializer=[0, 0])

    def make_vars_and_create_op_thunks(self):
        return [], [lambda: v1.assign_add(self.counts, [0, 1]).op]

    def make_cov_update_op(self):
        return v1.assign_add(self.counts, [1, 0]).op


def test_a_step_waits_for_no_update(graph):
    step = Step()
    RefreshThreads(None).policy(step, Curvature(), "KFAC").apply([], None, None)
    assert step.conditions == StepConditions()


def test_a_cycle_updates_averages_and_inverses_without_the_caller(graph, session):
    policy = RefreshThreads(1).policy(Step(), curvature := Curvature(), "KFAC")
    with v1.control_dependencies([v1.placeholder(tf.float32, [])]):
        policy.apply([], None, None)
    session.run(v1.global_variables_initializer())
    policy.start(session)
    policy.check()
    policy.stop()
    assert (session.run(curvature.counts) >= 1).all()


def test_nothing_starts_before_there_are_ops(session):
    policy = RefreshThreads(None).policy(Step(), None, "KFAC")
    with pytest.raises(ValueError, match="KFAC has no updates to run in the background: call"):
        policy.start(session)
    policy.check()
    policy.stop()
