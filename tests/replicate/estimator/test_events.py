import pytest
import tensorflow as tf
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from replicate.estimator.events import SpeedHook, event_hooks
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
    writer = v1.summary.FileWriter(str(folder))
    scaffold = v1.train.Scaffold()
    hooks = event_hooks(writer, scaffold, loss, RunConfig(**settings))
    creator = v1.train.ChiefSessionCreator(scaffold)
    with v1.train.MonitoredSession(creator, hooks) as session:
        for _ in range(steps):
            session.run(train_op)
    writer.close()
    return EventAccumulator(str(folder)).Reload()


def test_loss_and_speed_have_their_tags_and_steps(model, tmp_path):
    events = run(tmp_path, *model, steps=6, save_summary_steps=2, log_step_count_steps=3)
    assert sorted(events.Tags()["scalars"]) == ["global_step/sec", "loss"]
    assert [event.step for event in events.Scalars("loss")] == [1, 3, 5]
    assert [event.step for event in events.Scalars("global_step/sec")] == [3, 6]
    assert all(event.value > 0 for event in events.Scalars("global_step/sec"))


def test_summaries_of_the_model_are_written(model, tmp_path):
    v1.summary.scalar("five", 5.0)
    events = run(tmp_path, *model, steps=1, save_summary_steps=1)
    assert [event.value for event in events.Scalars("five")] == [5.0]


def test_a_loss_summary_of_the_model_takes_the_place_of_ours(graph, tmp_path):
    train_op = v1.assign_add(v1.train.create_global_step(), 1).op
    v1.summary.scalar("loss", 5.0)
    events = run(tmp_path, train_op, tf.constant(1.0), steps=1)
    assert [event.value for event in events.Scalars("loss")] == [5.0]


def test_both_can_be_switched_off(model, tmp_path):
    events = run(tmp_path, *model, steps=3, save_summary_steps=None, log_step_count_steps=None)
    assert events.Tags()["scalars"] == []


def test_speed_asks_for_nothing_between_two_events(model):
    assert SpeedHook(None, 100).before_run(None) is None
