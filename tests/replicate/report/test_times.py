"""Points of curves, by steps and by times, and where the time went."""

import json
import math

import numpy as np
import pytest

from replicate.report.curves import Curve, Elapsed, elapsed, read_curves
from replicate.report.metrics import best
from replicate.report.plots import MOST_POINTS, thinned
from replicate.report.ticks import duration, linear_ticks, log_ticks, short, time_ticks
from replicate.report.times import UNKNOWN, read_times

WRITTEN = {
    "calls": 2,
    "steps": 100,
    "first_step_seconds": 4.25,
    "seconds": {"start": 6.0, "training": 9.0, "input": 1.0, "saving": 0.5, "evaluation": 3.5},
}


def test_times_are_total_share_and_per_step(tmp_path):
    (tmp_path / "time.json").write_text(json.dumps(WRITTEN))
    times = read_times(tmp_path)
    assert times.facts((8.0, math.nan, 3.0, 7.0)) == {
        "steps per second": "7 (median of 3 to 8, evaluations and saves included)",
        "total time": "20 s",
        "time per step": "100 ms (mean, 10 per second, evaluations and saves not included)",
        "time to first step": "4.25 s",
    }
    assert times.shares() == [
        ("training", "9 s", 45.0),
        ("waiting for input", "1 s", 5.0),
        ("evaluation", "3.5 s", 17.5),
        ("saving checkpoints", "500 ms", 2.5),
        ("start", "6 s", 30.0),
    ]


@pytest.mark.parametrize(
    "text", ["{", "[]", '{"seconds": [1], "steps": "x"}', '{"seconds": {"start": NaN}}']
)
def test_a_damaged_file_tells_nothing(tmp_path, text):
    (tmp_path / "time.json").write_text(text)
    assert read_times(tmp_path).facts() == {}
    assert read_times(tmp_path).shares() == []


def test_no_file_a_link_and_no_steps_tell_nothing(tmp_path):
    assert read_times(tmp_path) == UNKNOWN
    (tmp_path / "time.json").write_text(json.dumps({**WRITTEN, "steps": 0}))
    assert read_times(tmp_path).per_step is None
    assert "time per step" not in read_times(tmp_path)._replace(per_step=0.0).facts((math.nan,))
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "time.json").symlink_to(tmp_path / "time.json")
    assert read_times(tmp_path / "run") == UNKNOWN


def test_pauses_and_impossible_times_do_not_count(timed_dir, write_timed):
    curves = read_curves(timed_dir)
    assert curves["training"]["loss"].seconds == (0.0, 10.0, 10.0, 30.0)
    assert curves["eval"]["loss"].seconds == (4.0, 10.0, 30.0)
    (timed_dir / "a.tfevents").write_bytes(max(timed_dir.glob("events*")).read_bytes())
    write_timed(timed_dir, "loss", (1005.0, 1, 4.0), (math.nan, 2, 3.0), (1e300, 3, 2.0))
    assert elapsed(timed_dir).spans == ((1000.0, 1010.0), (5000.0, 5020.0))


@pytest.mark.parametrize("kept", [0, 5, 30])
def test_an_incomplete_file_counts_up_to_its_last_whole_event(timed_dir, kept):
    last = max(timed_dir.glob("*tfevents*"))
    whole = last.read_bytes()
    last.write_bytes(whole + whole[:kept])
    assert elapsed(timed_dir).spans == ((1000.0, 1010.0), (5000.0, 5020.0))
    (timed_dir / "a.tfevents").write_bytes(bytes(100))
    last.write_bytes(whole[:-1])
    assert elapsed(timed_dir).spans[-1] == (5000.0, 5000.0)


def test_a_time_outside_of_all_spans_counts_what_came_before():
    clock = Elapsed(((10.0, 20.0), (30.0, 40.0)))
    assert [clock.at(time) for time in (0, 15, 25, 35, 99)] == [0, 5, 10, 15, 20]
    assert [clock.at(float(time)) for time in ("nan", "inf", "-inf")] == [0, 20, 0]


def test_best_result_is_the_first_of_equal_ones():
    curve = Curve((1, 2, 3, 4), (0.5, math.nan, 0.25, 0.25))
    for tags, found in (
        (("loss", "head/mean_error"), (0.25, 3)),
        (("Accuracy", "auc_precision_recall"), (0.5, 1)),
        (("label/mean", "glossary"), (0.25, 4)),
    ):
        assert [best(tag, curve) for tag in tags] == [found] * 2
    assert best("loss", Curve((1,), (math.inf,))) is None


def test_long_curves_keep_lows_highs_and_ends():
    values = np.random.RandomState(0).randn(12345)
    values[[777, 7777]] = 99.0, -99.0
    curve = Curve(tuple(range(12345)), tuple(values), tuple(map(float, range(12345))))
    steps, found, seconds = thinned(curve)
    assert seconds == tuple(map(float, steps))
    assert len(steps) <= MOST_POINTS
    assert list(steps) == sorted(set(steps))
    assert (steps[0], steps[-1]) == (0, 12344)
    short_curve = Curve(tuple(range(MOST_POINTS)), (0.5,) * MOST_POINTS)
    assert thinned(short_curve) is short_curve
    assert (found[steps.index(777)], found[steps.index(7777)]) == (99.0, -99.0)
    assert all(values[step] == value for step, value in zip(steps, found, strict=True))


def test_a_long_gap_stays_a_gap():
    values = [1.0] * 1000
    values[300:600] = [math.nan] * 300
    steps, found, _ = thinned(Curve(tuple(range(1000)), tuple(values)), 100)
    inside = [value for step, value in zip(steps, found, strict=True) if 310 <= step < 590]
    assert inside
    assert all(map(math.isnan, inside))


@pytest.mark.parametrize(
    ("make", "arguments", "ticks"),
    [
        (linear_ticks, (0.0, 1.0, 5), [0, 0.2, 0.4, 0.6, 0.8, 1]),
        (linear_ticks, (0.81, 1.0, 5), [0.85, 0.9, 0.95, 1]),
        (linear_ticks, (-3e38, 3e38, 5), [-2e38, 0, 2e38]),
        (linear_ticks, (1, 3, 5, True), [1, 2, 3]),
        (log_ticks, (0.02, 30.0, 5), [0.1, 1, 10]),
        (log_ticks, (1e-10, 1.0, 5), [1e-10, 1e-7, 1e-4, 1e-1]),
        (log_ticks, (0.015, 0.06, 5), [0.02, 0.05]),
        (log_ticks, (0.021, 0.024, 6), [0.021, 0.0215, 0.022, 0.0225, 0.023, 0.0235, 0.024]),
    ],
)
def test_ticks_are_round_and_logarithmic_ones_powers_of_ten(make, arguments, ticks):
    np.testing.assert_allclose(make(*arguments), ticks, atol=1e-12)


@pytest.mark.parametrize(
    ("make", "texts"),
    [
        (short, {0.25: "0.25", 1500: "1.5k", 2e6: "2M", -5e9: "-5G", 1e-5: "1e-05", 3e38: "3e+38"}),
        (duration, {0: "0 s", 0.0123: "12.3 ms", 59.96: "1 min", 125: "2 min 5 s"}),
        (duration, {3599.9: "1 h", 86399.9: "1 d", 300000: "3 d 11 h"}),
    ],
)
def test_short_texts_of_numbers_and_durations(make, texts):
    assert [make(value) for value in texts] == list(texts.values())


@pytest.mark.parametrize(
    ("end", "texts"),
    [
        (0.5, ["0 s", "100 ms", "200 ms", "300 ms", "400 ms", "500 ms"]),
        (70, ["0 s", "15 s", "30 s", "45 s", "1 min"]),
        (4000, ["0 s", "15 min", "30 min", "45 min", "1 h"]),
        (30000, ["0 s", "2 h", "4 h", "6 h", "8 h"]),
        (1e6, ["0 s", "5 d", "10 d"]),
    ],
)
def test_ticks_of_times_are_round(end, texts):
    assert [duration(tick) for tick in time_ticks(0, end, 5)] == texts
