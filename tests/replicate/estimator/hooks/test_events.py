"""Events, lines of metrics, and the schedule of the hooks that write them."""

import json
import shutil
import time
import types

import numpy as np
import pytest
import tensorflow as tf
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from replicate.estimator.hooks import event_file
from replicate.estimator.hooks.event_file import EventFile, EventFiles
from replicate.estimator.hooks.events import SpeedHook, event_hooks
from replicate.estimator.hooks.metric_lines import METRICS_FILE, append_metrics
from replicate.estimator.hooks.readings import StepReadings
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


@pytest.mark.parametrize(
    ("steps", "expected"), [(7, [(5, 2.0), (7, 2.0)]), (1, [(1, 0.01)]), (5, [(5, 2.0)])]
)
def test_the_first_step_counts_only_if_it_is_alone(tmp_path, clock, steps, expected):
    """It takes 100 s to compile; each of the others takes half a second."""
    readings = types.SimpleNamespace(step=0, loss=1.0)
    writer = EventFile(str(tmp_path))
    hook = SpeedHook(writer, readings, every_steps=5)
    hook.after_create_session(None, None)
    for step in range(1, steps + 1):
        is_due = hook.next_run().is_reached(step)
        clock[0] += 100 if step == 1 else 0.5
        readings.step = step
        if is_due:
            hook.after_run(None, None)
    hook.end(None)
    writer.close()
    found = EventAccumulator(str(tmp_path)).Reload().Scalars("global_step/sec")
    assert [(each.step, pytest.approx(each.value)) for each in found] == expected
    lines = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    assert [(line["step"], line["steps_per_sec"]) for line in lines] == expected


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


@pytest.fixture
def clock(monkeypatch):
    """The time of the monotonic clock, a list of one number."""
    now = [1000.0]
    monkeypatch.setattr(event_file.time, "monotonic", lambda: now[0])
    return now


def summary(value):
    return v1.Summary(value=[v1.Summary.Value(tag="a", simple_value=value)])


def values(folder):
    found = EventAccumulator(str(folder)).Reload()
    return [(each.step, each.value) for each in found.Scalars("a")]


def test_the_same_events_as_of_tensorflows_writer(tmp_path):
    def events(folder):
        [path] = folder.glob("events.out.tfevents.*")
        found = [v1.Event.FromString(text) for text in v1.io.tf_record_iterator(str(path))]
        for event in found:
            event.ClearField("wall_time")
            event.ClearField("source_metadata")
        return found

    with tf.Graph().as_default():
        theirs = v1.summary.FileWriter(str(tmp_path / "theirs"))
    for writer in (theirs, EventFile(str(tmp_path / "ours"))):
        writer.add_session_log(v1.SessionLog(status=v1.SessionLog.START), 1)
        writer.add_summary(summary(1.0), 1)
        writer.add_summary(summary(3.0).SerializeToString(), 8)
        writer.close()
    assert values(tmp_path / "ours") == [(1, 1.0), (8, 3.0)]
    assert events(tmp_path / "ours") == events(tmp_path / "theirs")


def test_files_of_one_second_have_different_names(tmp_path):
    paths = {EventFile(str(tmp_path)).path for _ in range(3)}
    assert len(paths) == 3
    assert {str(path) for path in tmp_path.iterdir()} == paths


def test_the_first_event_is_on_the_disk_at_once_and_others_after_a_while(tmp_path, clock):
    file = EventFile(str(tmp_path))
    file.add_summary(summary(1.0), 1)
    assert values(tmp_path) == [(1, 1.0)]
    file.add_summary(summary(2.0), 2)
    assert values(tmp_path) == [(1, 1.0)]
    clock[0] += event_file.FLUSH_SECS
    file.add_summary(summary(3.0), 3)
    assert values(tmp_path) == [(1, 1.0), (2, 2.0), (3, 3.0)]


def test_another_file_follows_after_failures_and_a_pause(tmp_path, caplog, clock):
    (tmp_path / "file").write_text("")
    file = EventFile(f"{tmp_path}/file/folder")
    for step in (1, 2):
        file.add_summary(summary(1.0), step)
        clock[0] += 2 * event_file.FLUSH_SECS
    (tmp_path / "file").unlink()
    file.add_summary(summary(2.0), 3)
    file.close()
    assert values(tmp_path / "file" / "folder") == [(3, 2.0)]
    assert caplog.text.count("cannot be written") == 1
    assert "not a directory" in caplog.text


def test_a_removed_file_is_replaced(tmp_path, caplog):
    file = EventFile(str(tmp_path / "a"))
    file.add_summary(summary(1.0), 1)
    shutil.rmtree(tmp_path / "a")
    file.flush()
    assert "the file was removed" in caplog.text
    file.add_summary(summary(2.0), 2)
    file.close()
    assert values(tmp_path / "a") == [(2, 2.0)]


def test_each_directory_has_one_file_that_stays_open_until_it_is_removed(tmp_path):
    files = EventFiles()
    for step in (1, 2):
        for name in ("a", "b"):
            files.of(f"{tmp_path}/{name}").add_summary(v1.Summary(), step)
            files.of(f"{tmp_path}/{name}").flush()
    for name in ("a", "b"):
        (path,) = (tmp_path / name).iterdir()
        assert [event.step for event in v1.train.summary_iterator(str(path))] == [0, 1, 2]
        path.unlink()
        assert files.of(f"{tmp_path}/{name}").path != str(path)


def lines(folder):
    return (folder / METRICS_FILE).read_text().splitlines()


def test_a_line_is_an_object_with_step_time_and_values(tmp_path):
    values = {
        "number": (np.float32(0.5), 0.5),
        "array": (np.array(3, np.int64), 3),
        "truth": (np.bool_(True), True),
        "text": ("eval_test", "eval_test"),
        "nan": (float("nan"), None),
        "infinite": (np.float32(-np.inf), None),
    }
    others = {
        "image": b"bytes",
        "matrix": np.eye(2),
        "none": None,
        "pair": (1, [2, 3]),
        "dict": {"a": 1},
        "complex": 1j,
        "texts": np.array(b"text", object),
    }
    before = time.time()
    given = {name: value for name, (value, _) in values.items()}
    append_metrics(f"{tmp_path}/", np.int64(7), {**given, **others})
    [line] = lines(tmp_path)
    found = json.loads(line)
    assert before - 1 < found.pop("time") < time.time() + 1
    assert found == {"step": 7, **{name: expected for name, (_, expected) in values.items()}}


def test_lines_are_added_and_one_that_was_torn_is_ended_first(tmp_path):
    append_metrics(str(tmp_path), 1, {})
    whole = (tmp_path / METRICS_FILE).read_bytes()
    (tmp_path / METRICS_FILE).write_bytes(whole + whole[:9])
    append_metrics(str(tmp_path), 2, {})
    append_metrics(str(tmp_path), 3, {})
    first, torn, *others = lines(tmp_path)
    assert f"{first}\n{torn}".encode() == whole + whole[:9]
    assert [json.loads(line)["step"] for line in (first, *others)] == [1, 2, 3]


def test_link_out_of_the_directory_is_not_written_to(tmp_path, caplog):
    other, folder = tmp_path / "other", tmp_path / "run"
    folder.mkdir()
    other.write_text("mine")
    (folder / METRICS_FILE).symlink_to(other)
    append_metrics(str(folder), 4, {"loss": 1.0})
    assert other.read_text() == "mine"
    assert "metrics.jsonl cannot be written: it is a link to a file outside" in caplog.text
