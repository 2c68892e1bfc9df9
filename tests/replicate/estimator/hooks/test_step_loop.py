"""The loop over steps, its readings and its end."""

import threading

import numpy as np
import pytest
import tensorflow as tf

from replicate.estimator.hooks.readings import StepReadings
from replicate.estimator.hooks.scheduled_hook import NextRun, ScheduledHook
from replicate.estimator.hooks.step_loop import StepLoop
from replicate.estimator.hooks.stopping import StopHook

v1 = tf.compat.v1


@pytest.fixture
def readings(graph):
    """Readings of a step counter; the loss is the step before."""
    step = v1.train.create_global_step()
    loss = tf.cast(step.read_value(), tf.float32)
    with tf.control_dependencies([loss]):
        return StepReadings(v1.assign_add(step, 1).op, loss)


class Every(ScheduledHook):
    """Runs at every multiple of a number, and records its calls."""

    def __init__(self, readings, number):
        self.readings = readings
        self.number = number
        self.asked = []
        self.told = []

    def next_run(self):
        return NextRun(step=(self.readings.step // self.number + 1) * self.number)

    def before_run(self, run_context):
        self.asked.append(self.readings.step + 1)
        if self.asked[-1] % self.number:
            return None
        return v1.train.SessionRunArgs({"loss": self.readings.loss_tensor})

    def after_run(self, run_context, run_values):
        self.told.append((self.readings.step, run_values.results))


class Counting(v1.train.SessionRunHook):
    """An unscheduled hook that records the losses."""

    def __init__(self, loss):
        self.loss = loss
        self.seen = []

    def before_run(self, run_context):
        return v1.train.SessionRunArgs(self.loss)

    def after_run(self, run_context, run_values):
        self.seen.append(run_values.results)


def run(readings, hooks, creator=None, **settings):
    loop = StepLoop(readings, hooks, **settings)
    with v1.train.MonitoredSession(creator, loop.hooks) as session:
        loop.run(session)


def test_scheduled_hooks_are_skipped_until_one_is_due(readings):
    rare, rarer = Every(readings, 3), Every(readings, 6)
    run(readings, [rare, rarer, StopHook(readings, 7)])
    assert rare.asked == rarer.asked == [3, 6, 7]
    assert rare.told == [(3, {"loss": 2.0}), (6, {"loss": 5.0}), (7, None)]
    assert rarer.told == [(3, None), (6, {"loss": 5.0}), (7, None)]


def test_hook_runs_when_other_workers_move_the_step_past_its_schedule(graph):
    step = v1.train.create_global_step()
    readings = StepReadings(v1.assign_add(step, 5).op, tf.constant(1.0))
    rare = Every(readings, 3)
    run(readings, [rare, StopHook(readings, last_step=10)])
    assert rare.told == [(5, None), (10, {"loss": 1.0})]


def test_hook_runs_at_a_scheduled_time(readings):
    class Clocked(ScheduledHook):
        told = 0

        def next_run(self):
            return NextRun(time=0.0)

        def after_run(self, run_context, run_values):
            self.told += 1

    hook = Clocked()
    run(readings, [hook, StopHook(readings, 3)])
    assert hook.told == 3


def test_check_runs_after_every_step_and_its_error_ends_the_run(readings):
    steps = []

    def check():
        steps.append(readings.step)
        if readings.step == 3:
            raise ArithmeticError("three")

    with pytest.raises(ArithmeticError, match="three"):
        run(readings, [StopHook(readings, 9)], check=check)
    assert steps == [1, 2, 3]


@pytest.mark.parametrize("has_others", [True, False])
def test_lost_session_is_replaced_and_its_steps_are_made_again(readings, has_others):
    class Lose(ScheduledHook):
        sessions = 0

        def next_run(self):
            return NextRun(step=3)

        def after_create_session(self, session, coord):
            self.sessions += 1

        def after_run(self, run_context, run_values):
            if self.sessions == 1:
                raise tf.errors.AbortedError(None, None, "lost")

    lose = Lose()
    others = [Counting(readings.loss_tensor)] if has_others else []
    run(readings, [*others, lose, StopHook(readings, last_step=4)])
    assert (lose.sessions, readings.step) == (2, 4)


def add_failing_queue():
    queue = v1.FIFOQueue(10, [tf.float32], shapes=[[]])
    bad = tf.numpy_function(lambda: np.float32(int("x")), [], tf.float32)
    v1.train.add_queue_runner(v1.train.QueueRunner(queue, [queue.enqueue(bad)]))
    return queue


class Agreement:
    """An agreement of workers that is reached as soon as one of them asks for it."""

    is_reached = False

    def ask(self, session, has_signal):
        self.is_reached = True


@pytest.mark.parametrize("others", [True, False])
def test_error_of_a_queue_runner_is_no_end_that_workers_agree_on(readings, others):
    """No step waits for the queue: the error is found between two of them."""
    add_failing_queue()
    agreement = Agreement()
    with pytest.raises(tf.errors.InvalidArgumentError, match="invalid literal"):
        run(
            readings,
            [Counting(readings.loss_tensor)] if others else [],
            v1.train.ChiefSessionCreator(),
            agreement=agreement,
        )
    assert not agreement.is_reached


@pytest.mark.parametrize("others", [True, False])
def test_loop_continues_after_a_thread_reports_a_lost_session(readings, others):
    class Lose(v1.train.SessionRunHook):
        """Counts the sessions."""

        sessions = 0

        def after_create_session(self, session, coord):
            self.sessions += 1
            self.coord = coord

    lose = Lose()

    def should_stop():
        if readings.step == 3 and lose.sessions == 1:
            with lose.coord.stop_on_exception():
                raise tf.errors.UnavailableError(None, None, "lost")
        return readings.step == 6

    hooks = [lose, Counting(readings.loss_tensor)] if others else [lose]
    loop = StepLoop(readings, hooks)
    with v1.train.MonitoredSession(v1.train.ChiefSessionCreator(), loop.hooks) as session:
        loop.run(session, should_stop)
    assert (readings.step, lose.sessions) == (6, 2)


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


@pytest.mark.parametrize(("limits", "last"), [({"num_steps": 2}, 7), ({"last_step": 5}, 5)])
def test_training_ends_at_its_last_step(graph, limits, last):
    step = v1.train.create_global_step()
    readings = StepReadings(v1.assign_add(step, 1).op, tf.constant(1.0))
    creator = v1.train.ChiefSessionCreator(v1.train.Scaffold(init_op=step.assign(5)))
    loop = StepLoop(readings, [StopHook(readings, **limits)])
    with v1.train.MonitoredSession(creator, loop.hooks) as session:
        loop.run(session)
    assert readings.step == last


class Host:
    """A clock that stands still but for the ops of a test, in place of `tf.timestamp`."""

    def __init__(self, monkeypatch):
        self.now = 1e9
        self.started = threading.Event()
        monkeypatch.setattr(tf, "timestamp", self.timestamp)

    def timestamp(self, name):
        return tf.numpy_function(self._read, [name == "start"], tf.float64)

    def _read(self, is_start):
        if is_start:
            self.started.set()
        return np.float64(self.now)

    def takes(self, secs):
        """An op that takes so long, once the step has started."""

        def work():
            self.started.wait()
            self.started.clear()
            self.now += secs
            return np.float32(1)

        return tf.numpy_function(work, [], tf.float32)


def test_wait_for_the_batch_is_measured(graph, monkeypatch):
    step = v1.train.create_global_step()
    batch = {"x": Host(monkeypatch).takes(0.5), "unused": np.zeros(3)}
    readings = StepReadings(v1.assign_add(step, 1).op, batch["x"], batch=batch)
    read(readings, 3)
    assert readings.input_secs == 1.5


def test_time_after_the_batch_is_no_wait_for_input(graph, monkeypatch, evaluate):
    step = v1.train.create_global_step()
    host = Host(monkeypatch)
    batch = host.takes(0.5)
    readings = StepReadings(v1.assign_add(step, 1).op, tf.constant(1.0), batch=batch)
    readings.begin()
    ends = [op for op in graph.get_operations() if op.type == "PyFunc"][-1:]
    with tf.control_dependencies([ends[0].outputs[0]]):
        late = tf.numpy_function(lambda: setattr(host, "now", host.now + 9), [], [])
    readings.take(evaluate((readings.fetch, late))[0])
    assert readings.input_secs == 0.5


def test_measuring_the_wait_changes_no_seed():
    def draw(is_measured):
        with tf.Graph().as_default():
            v1.set_random_seed(1)
            step = v1.train.create_global_step()
            batch = tf.zeros([2])
            drawn = tf.random.uniform([]) + batch[0]
            step_op = v1.assign_add(step, 1).op
            return read(StepReadings(step_op, drawn, batch=batch if is_measured else None), 2)

    assert draw(True) == draw(False)
