import pytest

from replicate.report.curves import Curve
from replicate.report.panels import (
    Panel,
    comparison_panels,
    kfac_panels,
    label,
    main_panels,
)


def test_main_panels_are_loss_metrics_and_speed_in_order(untimed_runs):
    loss, accuracy, speed = main_panels(untimed_runs)
    assert (loss.title, list(loss.curves), loss.is_log) == (
        "loss",
        ["training batch", "test"],
        True,
    )
    assert accuracy == Panel("accuracy", {"test": Curve((6, 11), (0.5, 0.625))})
    assert speed.title == "steps per second"


@pytest.mark.parametrize(
    ("values", "is_log"),
    [((1.0, 0.01), True), ((1.0, 0.5), False), ((1.0, 0.0), False), ((float("nan"), 1.0), False)],
)
def test_a_loss_that_spans_decades_is_logarithmic(values, is_log):
    [panel] = main_panels({"training": {"loss": Curve((1, 2), values)}})
    assert panel.is_log is is_log


def test_main_panels_are_at_most_twelve():
    curve = Curve((1,), (1.0,))
    panels = main_panels({"training": {f"tag{number}": curve for number in range(40)}})
    assert len(panels) == 12
    assert len(main_panels({"training": dict.fromkeys(map(str, range(40)), curve)}, None)) == 40


def test_kfac_panels_leave_out_counters_at_zero(untimed_runs):
    runs = untimed_runs
    damping, condition, counters = kfac_panels(runs)
    assert damping == Panel("damping", {"damping": Curve((1, 11), (0.25, 0.125))}, is_log=True)
    assert list(condition.curves) == ["w/input", "w/output"]
    assert list(counters.curves) == ["skipped steps"]
    assert kfac_panels({"eval_test": runs["eval_test"]}) == []


@pytest.mark.parametrize(
    ("run", "words"),
    [("training", "training batch"), ("eval", "evaluation"), ("eval_test", "test")],
)
def test_label_of_a_run(run, words):
    assert label(run) == words


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
