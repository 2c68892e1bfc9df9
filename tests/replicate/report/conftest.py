"""A model directory as a run leaves it: events of training and of an evaluation."""

import contextlib

import pytest
import tensorflow as tf

from replicate.report.curves import read_curves

v1 = tf.compat.v1


def _write_timed(folder, tag, *points):
    """Writes an event file with a curve of (seconds since 1970, step, value)."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"events.out.tfevents.{points[0][0]:.0f}.host"
    with tf.io.TFRecordWriter(str(path)) as writer:
        writer.write(
            v1.Event(wall_time=points[0][0], file_version="brain.Event:2").SerializeToString()
        )
        for time, step, value in points:
            summary = v1.Summary(value=[v1.Summary.Value(tag=tag, simple_value=value)])
            event = v1.Event(wall_time=time, step=step, summary=summary)
            writer.write(event.SerializeToString())
    return path


@pytest.fixture
def write_timed():
    """The function that writes an event file with times."""
    return _write_timed


@pytest.fixture
def timed_dir(tmp_path):
    """A run of 10 s, a pause, and a run of 20 s, which an evaluation follows."""
    folder = tmp_path / "timed"
    _write_timed(folder, "loss", (1000.0, 1, 4.0), (1010.0, 10, 2.0))
    _write_timed(folder, "loss", (5000.0, 11, 1.0), (5020.0, 20, 0.5))
    _write_timed(folder / "eval", "loss", (1004.0, 5, 3.0), (1500.0, 10, 2.5), (9000.0, 20, 0.75))
    return folder


def write(folder, **curves):
    """Writes curves, lists of (step, value), under their tags; "__" stands for "/"."""
    with tf.Graph().as_default(), contextlib.closing(v1.summary.FileWriter(str(folder))) as writer:
        for tag, points in curves.items():
            for step, value in points:
                scalar = v1.Summary.Value(tag=tag.replace("__", "/"), simple_value=value)
                writer.add_summary(v1.Summary(value=[scalar]), step)


@pytest.fixture(scope="package")
def untimed_runs(model_dir):
    """Curves of the model directory, without the times of their points."""
    return {
        run: {tag: curve._replace(seconds=()) for tag, curve in curves.items()}
        for run, curves in read_curves(model_dir).items()
    }


@pytest.fixture(scope="package")
def model_dir(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "small"
    write(
        folder,
        loss=[(1, 2.0), (6, 0.5), (11, 0.0625)],
        global_step__sec=[(5, 40.0), (10, 60.0), (11, 50.0)],
        kfac__monitor__damping=[(1, 0.25), (11, 0.125)],
        kfac__monitor__skipped_steps=[(1, 0.0), (11, 2.0)],
        kfac__monitor__kept_inverses=[(1, 0.0), (11, 0.0)],
        kfac__monitor__w__input__inverse_condition=[(1, float("nan")), (11, 8.0)],
        kfac__monitor__w__output__inverse_condition=[(1, 2.0), (11, float("nan"))],
    )
    write(folder / "eval_test", loss=[(6, 0.75), (11, 0.875)], accuracy=[(6, 0.5), (11, 0.625)])
    (folder / "eval").mkdir()
    return folder
