import math
import time

import pytest
import tensorflow as tf

from replicate.estimator.hooks.readings import StepReadings
from replicate.estimator.hooks.scheduled_hook import NextRun, ScheduledHook
from replicate.estimator.hooks.step_loop import StepLoop
from replicate.estimator.hooks.stopping import StopHook

v1 = tf.compat.v1


@pytest.mark.parametrize(
    ("schedule", "is_reached"),
    [
        (NextRun(), False),
        (NextRun(step=5), True),
        (NextRun(step=6), False),
        (NextRun(time=0.0), True),
        (NextRun(time=math.inf), False),
        (NextRun(step=6, time=time.monotonic()), True),
    ],
)
def test_schedule_is_reached_by_step_or_time(schedule, is_reached):
    assert schedule.is_reached(5) == is_reached


class LearningRateHook(ScheduledHook):
    """The example in the documentation of ScheduledHook."""

    def __init__(self, readings, learning_rate):
        self.logged = []
        self._readings = readings
        self._learning_rate = learning_rate
        self._next_run = NextRun(step=1)

    def next_run(self):
        return self._next_run

    def after_run(self, run_context, run_values):
        step = self._readings.step
        if self._next_run.is_reached(step):
            self.logged.append((step, run_context.session.run(self._learning_rate)))
            self._next_run = NextRun(step=step + 100)


def test_hook_of_the_example_logs_every_100_steps(graph):
    step = v1.train.create_global_step()
    readings = StepReadings(v1.assign_add(step, 1).op, tf.constant(1.0))
    hook = LearningRateHook(readings, tf.constant(0.5))
    loop = StepLoop(readings, [hook, StopHook(readings, last_step=150)])
    with v1.train.MonitoredSession(hooks=loop.hooks) as session:
        loop.run(session)
    assert hook.logged == [(1, 0.5), (101, 0.5)]
