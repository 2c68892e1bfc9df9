"""Event files written here come back as curves, and the picture is a PNG of the stated size."""

import struct

import numpy as np
import pytest
import tensorflow as tf

pytest.importorskip("matplotlib")
pytest.importorskip("tensorboard")

from examples import curves

v1 = tf.compat.v1


def write_events(folder, tag, points):
    with tf.Graph().as_default():  # The writer refuses to work beside eager execution.
        # Files that one second makes would have one name, but for the suffix.
        suffix = f".{len(list(folder.glob('*')))}"
        writer = v1.summary.FileWriter(str(folder), filename_suffix=suffix)
        for step, value in points:
            summary = v1.Summary(value=[v1.Summary.Value(tag=tag, simple_value=value)])
            writer.add_summary(summary, step)
        writer.close()


@pytest.fixture
def model_dir(tmp_path):
    write_events(tmp_path, "loss", [(1, 2.5), (2, 0.5), (3, 0.25)])
    write_events(tmp_path / "eval_train", "accuracy", [(3, 1.0)])
    write_events(tmp_path / "eval_test", "accuracy", [(3, 0.75)])
    write_events(tmp_path / "eval_test", "loss", [(3, 0.5)])
    return tmp_path


def test_read_finds_every_scalar_of_all_files(model_dir):
    write_events(model_dir / "eval_test", "accuracy", [(6, 0.875)])  # Of a continued run.
    found = curves.read(str(model_dir))
    assert set(found) == {
        ("batch", "loss"),
        ("train", "accuracy"),
        ("test", "accuracy"),
        ("test", "loss"),
    }
    np.testing.assert_array_equal(found["batch", "loss"].steps, [1, 2, 3])
    np.testing.assert_array_equal(found["batch", "loss"].values, [2.5, 0.5, 0.25])
    np.testing.assert_array_equal(found["test", "accuracy"].steps, [3, 6])
    np.testing.assert_array_equal(found["test", "accuracy"].values, [0.75, 0.875])


def test_read_keeps_every_point_of_a_long_run(tmp_path):
    write_events(tmp_path, "loss", [(step, 1.0 / step) for step in range(1, 12_001)])
    assert len(curves.read(str(tmp_path))["batch", "loss"].steps) == 12_000


def test_pictures_of_1200_by_540_pixels_show_metrics_and_runs(model_dir, tmp_path):
    write_events(model_dir / "eval_test", "error", [(3, 0.5), (4, 0.25)])
    write_events(model_dir / "eval_train", "loss", [(3, 0.25)])
    found = curves.read(str(model_dir))
    picture = tmp_path / "curves.png"
    drawn = []
    for draw in (
        lambda: curves.draw(found, str(picture), "A title"),
        lambda: curves.draw(found, str(picture), "A title", "error"),
        lambda: curves.draw({}, str(picture), "A title"),
        lambda: curves.compare({"this": found}, str(picture), "A title"),
        lambda: curves.compare({"this": found, "that": found}, str(picture), "A title"),
    ):
        draw()
        drawn.append(picture.read_bytes())
        assert drawn[-1][:8] == b"\x89PNG\r\n\x1a\n"
        assert struct.unpack(">II", drawn[-1][16:24]) == (1200, 540)
    assert len(set(drawn)) == 5


def test_the_command_draws_a_folder_anew_or_ends_with_one_line(model_dir, capsys):
    curves.main([str(model_dir), "A run"])
    assert (model_dir / "curves.png").exists()
    assert f"{model_dir}/curves.png" in capsys.readouterr().out
    curves.main(["--help"])
    assert "python -m examples.curves runs/convnet" in capsys.readouterr().out
    for wrong in ([], [str(model_dir)], [f"{model_dir}/nowhere", "title"]):
        with pytest.raises(SystemExit) as end:
            curves.main(wrong)
        assert (end.value.code, capsys.readouterr().err.count("\n")) == (2, 1)
