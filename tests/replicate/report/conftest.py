"""A model directory as a run leaves it: events of training and of an evaluation."""

import contextlib

import pytest
import tensorflow as tf

v1 = tf.compat.v1


def write(folder, **curves):
    """Writes curves, lists of (step, value), under their tags; "__" stands for "/"."""
    with tf.Graph().as_default(), contextlib.closing(v1.summary.FileWriter(str(folder))) as writer:
        for tag, points in curves.items():
            for step, value in points:
                scalar = v1.Summary.Value(tag=tag.replace("__", "/"), simple_value=value)
                writer.add_summary(v1.Summary(value=[scalar]), step)


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
    write(
        folder / "eval_test",
        loss=[(6, 0.75), (11, 0.875)],
        accuracy=[(6, 0.5), (11, 0.625)],
    )
    (folder / "eval").mkdir()
    return folder
