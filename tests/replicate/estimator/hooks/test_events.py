"""Events of a run, and hooks that act on a schedule."""

import json
import math
import time

import pytest
import tensorflow as tf
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from replicate.estimator.hooks.event_file import EventFile
from replicate.estimator.hooks.events import SpeedHook, SummaryHook, event_hooks
from replicate.estimator.hooks.readings import StepReadings
from replicate.estimator.hooks.scheduled_hook import NextRun
from replicate.estimator.hooks.step_loop import StepLoop
from replicate.estimator.hooks.stopping import StopHook
from replicate.estimator.run_config import RunConfig

v1 = tf.compat.v1


@pytest.fixture
def model(graph):
    """A step counter, the operation that moves it, and a loss that equals the step."""
    step = v1.train.create_global_step()
    loss = tf.cast(step, tf.float32, name="loss")
    with tf.control_dependencies([loss]):
        return v1.assign_add(step, 1).op, loss


def run(folder, train_op, loss, steps, **settings):
    writer = EventFile(str(folder))
    scaffold = v1.train.Scaffold()
    readings = StepReadings(train_op, loss)
    hooks = event_hooks(writer, scaffold, readings, RunConfig(**settings))
    creator = v1.train.ChiefSessionCreator(scaffold)
    loop = StepLoop(readings, [StopHook(readings, steps), *hooks])
    with v1.train.MonitoredSession(creator, loop.hooks) as session:
        loop.run(session)
    writer.close()
    return EventAccumulator(str(folder)).Reload()


def speeds(events):
    return [event.step for event in events.Scalars("global_step/sec")]


def test_loss_speed_summaries_and_metric_lines(model, tmp_path):
    v1.summary.scalar("five", 5.0)
    events = run(tmp_path, *model, steps=7, save_summary_steps=2, log_step_count_steps=3)
    assert sorted(events.Tags()["scalars"]) == ["five", "global_step/sec", "loss"]
    losses = [(event.step, event.value) for event in events.Scalars("loss")]
    assert losses == [(1, 0), (3, 2), (5, 4), (7, 6)]
    assert {event.value for event in events.Scalars("five")} == {5.0}
    assert speeds(events) == [3, 6, 7]
    assert all(event.value > 0 for event in events.Scalars("global_step/sec"))
    lines = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    assert [(line["step"], line["loss"]) for line in lines] == [(3, 2.0), (6, 5.0), (7, 6.0)]
    assert all(line["steps_per_sec"] > 0 for line in lines)


def test_the_last_step_is_written_once(model, tmp_path):
    events = run(tmp_path, *model, steps=6, save_summary_steps=4, log_step_count_steps=3)
    assert [event.step for event in events.Scalars("loss")] == [1, 5, 6]
    assert speeds(events) == [3, 6]
    assert len((tmp_path / "metrics.jsonl").read_text().splitlines()) == 2


def test_a_loss_summary_of_the_model_takes_the_place_of_ours(graph, tmp_path):
    train_op = v1.assign_add(v1.train.create_global_step(), 1).op
    v1.summary.scalar("loss", 5.0)
    events = run(tmp_path, train_op, tf.constant(1.0), steps=1)
    assert [event.value for event in events.Scalars("loss")] == [5.0]


@pytest.mark.parametrize("never", [None, 0])
def test_both_can_be_switched_off(model, tmp_path, never):
    events = run(tmp_path, *model, steps=3, save_summary_steps=never, log_step_count_steps=None)
    assert events.Tags()["scalars"] == []
    assert not (tmp_path / "metrics.jsonl").exists()


def test_hooks_are_due_and_ask_only_where_there_is_an_event(graph, tmp_path):
    v1.train.create_global_step()
    readings = StepReadings(tf.no_op(), tf.constant(1.0))
    assert SpeedHook(None, readings, 100).next_run() == NextRun(step=100)
    assert SpeedHook(None, readings, 100).before_run(None) is None
    writer = EventFile(str(tmp_path))
    hook = SummaryHook(writer, readings, v1.train.Scaffold(summary_op=tf.constant(b"")), 3)
    hook.after_create_session(None, None)
    asked = []
    for step in range(7):
        readings.step = step
        request = hook.before_run(None)
        asked.append(request is not None)
        assert asked[-1] == (step + 1 >= hook.next_run().step)
        if request is not None:
            readings.step = step + 1
            hook.after_run(None, v1.train.SessionRunValues(b"", None, None))
    assert asked == [True, False, False, True, False, False, True]


@pytest.mark.parametrize(
    ("schedule", "is_reached"),
    [
        (NextRun(), False),
        (NextRun(step=5), True),
        (NextRun(step=6, time=math.inf), False),
        (NextRun(step=6, time=time.monotonic()), True),
    ],
)
def test_schedule_is_reached_by_step_or_time(schedule, is_reached):
    assert schedule.is_reached(5) == is_reached
