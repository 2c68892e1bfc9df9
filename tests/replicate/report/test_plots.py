"""Curves, their panels and pictures."""

import math

import pytest
import tensorflow as tf

from replicate.report.curves import Curve, read_curves
from replicate.report.panels import BATCH, Panel, comparison_panels, kfac_panels, main_panels
from replicate.report.plots import BOTTOM, HEIGHT, LEFT, RIGHT, TOP, WIDTH, plot

v1 = tf.compat.v1


def test_curves_fill_the_frame():
    shown = plot(Panel("loss", {"a": Curve((0, 5, 10), (0.0, 1.0, 2.0))}))
    (series,) = shown.series
    x, y = [x for x, _, _ in series.markers], [y for _, y, _ in series.markers]
    assert x == [LEFT, (LEFT + WIDTH - RIGHT) / 2, WIDTH - RIGHT]
    assert y[1] == (TOP + HEIGHT - BOTTOM) / 2
    assert TOP < y[2] < y[0] < HEIGHT - BOTTOM
    assert series.path == f"M{x[0]:g} {y[0]:g}h0L{x[1]:g} {y[1]:g}L{x[2]:g} {y[2]:g}"
    assert [tick.text for tick in shown.y_ticks] == ["0", "0.5", "1", "1.5", "2"]
    assert [tick.text for tick in shown.x_ticks] == ["0", "2", "4", "6", "8", "10"]
    assert series.markers[1][2] == "a: 1 at step 5"
    assert (series.last, shown.notes) == ("2", [])


def test_values_that_are_not_finite_are_gaps_and_counted():
    values = (1.0, math.nan, math.inf, 2.0)
    shown = plot(Panel("x", {"a": Curve((1, 2, 3, 4), values)}))
    assert shown.series[0].path.count("M") == 2
    assert len(shown.series[0].markers) == 2
    assert shown.notes == ["2 of 4 values are not finite."]
    for values in ((), (math.nan,)):
        assert plot(Panel("x", {"a": Curve((1,) * len(values), values)}, True)).is_empty


def test_logarithmic_scale_has_equal_decades_and_no_place_for_zero():
    shown = plot(Panel("loss", {"a": Curve((0, 1, 2), (1.0, 0.1, 0.01))}, True))
    first, second, third = (y for _, y, _ in shown.series[0].markers)
    assert third - second == pytest.approx(second - first, abs=0.11)
    assert [tick.text for tick in shown.y_ticks] == ["0.01", "0.1", "1"]
    shown = plot(Panel("x", {"a": Curve((1, 2), (0.0, 2.0))}, True))
    assert shown.notes == ["1 values are not above 0 and have no place on this scale."]
    assert len(shown.series[0].markers) == 1
    linear = plot(Panel("x", {"a": Curve((1, 2), (0.0, -2.0))}, True))
    assert len(linear.series[0].markers) == 2


@pytest.mark.parametrize("value", [0.0, 5.0, -3e38])
def test_a_single_value_lies_in_the_middle(value):
    ((x, y, _),) = plot(Panel("x", {"a": Curve((7,), (value,))})).series[0].markers
    assert (x, y) == ((LEFT + WIDTH - RIGHT) / 2, (TOP + HEIGHT - BOTTOM) / 2)


def test_long_curves_are_thinned_and_have_no_markers():
    shown = plot(Panel("x", {"a": Curve(tuple(range(5000)), (1.0, 2.0) * 2500)}))
    assert shown.series[0].path.count("L") < 400
    assert shown.series[0].markers == []
    assert shown.notes == ["Only lows and highs of 5,000 values are drawn."]


def test_an_evaluation_has_its_colour_with_and_without_training():
    curve = Curve((1,), (1.0,))
    names = [BATCH, *(f"run{i}" for i in range(9))]
    styles = [s.style for s in plot(Panel("x", dict.fromkeys(names, curve))).series]
    assert (styles[0], styles[1], styles[7], styles[8]) == ("batch", "s0 d0", "s6 d0", "s0 d1")
    many = plot(Panel("x", {str(i): curve for i in range(30)}))
    assert len(many.series) == 21
    assert many.notes == ["9 more curves are not drawn."]


def test_training_and_evaluations_are_read(model_dir, tmp_path):
    runs = read_curves(model_dir)
    assert list(runs) == ["training", "eval_test"]
    assert runs["training"]["loss"][:2] == ((1, 6, 11), (2.0, 0.5, 0.0625))
    assert {tag: curve[:2] for tag, curve in runs["eval_test"].items()} == {
        "loss": ((6, 11), (0.75, 0.875)),
        "accuracy": ((6, 11), (0.5, 0.625)),
    }
    (path,) = (model_dir / "eval_test").glob("*tfevents*")
    (tmp_path / path.name).write_bytes(path.read_bytes()[:-5])
    truncated = read_curves(tmp_path)["training"]["accuracy"]
    assert truncated[:2] == ((6,), (0.5,)), "it is read up to its last whole event"


def test_repeated_steps_count_once(tmp_path):
    with tf.Graph().as_default():
        writer = v1.summary.FileWriter(str(tmp_path))
    for start, values in ((1, (1.0, 2.0, 3.0)), (3, (4.0, 5.0))):
        writer.add_session_log(v1.SessionLog(status=v1.SessionLog.START), start)
        for step, value in enumerate(values, start):
            scalar = v1.Summary.Value(tag="loss", simple_value=value)
            writer.add_summary(v1.Summary(value=[scalar]), step)
    writer.close()
    assert read_curves(tmp_path)["training"]["loss"][:2] == ((1, 2, 3, 4), (1.0, 2.0, 4.0, 5.0))


@pytest.mark.parametrize("content", [b"", b"garbage" * 99])
def test_damaged_files_have_no_curves(tmp_path, content):
    (tmp_path / "events.out.tfevents.1.x").write_bytes(content)
    assert read_curves(tmp_path) == {}
    with tf.io.TFRecordWriter(str(tmp_path / "events.out.tfevents.1.x")) as writer:
        writer.write(b"\xff")
    with pytest.raises(ValueError, match=f"cannot read the event files in {tmp_path}: one is dam"):
        read_curves(tmp_path)


def test_folders_and_files_that_lead_out_are_left_out(model_dir, tmp_path):
    (tmp_path / "eval_test").symlink_to(model_dir / "eval_test")
    (tmp_path / "eval").mkdir()
    (events,) = (model_dir / "eval_test").iterdir()
    (tmp_path / "eval" / events.name).symlink_to(events)
    assert read_curves(tmp_path) == {}


def test_main_panels_are_loss_metrics_and_speed_in_order(untimed_runs):
    loss, accuracy, speed = main_panels(untimed_runs)
    assert (loss.title, loss.is_log) == ("loss", True)
    assert list(loss.curves) == ["training batch", "test"]
    assert accuracy == Panel("accuracy", {"test": Curve((6, 11), (0.5, 0.625))})
    assert speed.title == "steps per second"
    many = {"training": dict.fromkeys(map(str, range(40)), Curve((1,), (1.0,)))}
    assert (len(main_panels(many)), len(main_panels(many, None))) == (12, 40)


@pytest.mark.parametrize(
    ("values", "is_log"),
    [((1.0, 0.01), True), ((1.0, 0.5), False), ((1.0, 0.0), False), ((float("nan"), 1.0), False)],
)
def test_a_loss_that_spans_decades_is_logarithmic(values, is_log):
    [panel] = main_panels({"training": {"loss": Curve((1, 2), values)}})
    assert panel.is_log is is_log


def test_kfac_panels_leave_out_counters_at_zero(untimed_runs):
    runs = untimed_runs
    damping, condition, counters = kfac_panels(runs)
    assert damping == Panel("damping", {"damping": Curve((1, 11), (0.25, 0.125))}, is_log=True)
    assert list(condition.curves) == ["w/input", "w/output"]
    assert list(counters.curves) == ["skipped steps"]
    assert kfac_panels({"eval_test": runs["eval_test"]}) == []


def test_comparison_panels_begin_with_losses_of_evaluations(untimed_runs):
    runs = untimed_runs
    panels = comparison_panels({"a": runs, "b": {"eval_test": runs["eval_test"]}})
    assert [(panel.title, list(panel.curves)) for panel in panels] == [
        ("loss, test", ["a", "b"]),
        ("accuracy, test", ["a", "b"]),
        ("loss, training batch", ["a"]),
        ("steps per second", ["a"]),
    ]
    assert [panel.is_log for panel in panels] == [False, False, True, False]
