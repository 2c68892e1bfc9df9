import math

import pytest

from replicate.report.curves import read_curves
from replicate.report.elapsed import Elapsed, elapsed


def test_pauses_between_runs_do_not_count(timed_dir):
    curves = read_curves(timed_dir)
    assert curves["training"]["loss"].seconds == (0.0, 10.0, 10.0, 30.0)
    assert curves["eval"]["loss"].seconds == (4.0, 10.0, 30.0)


@pytest.mark.parametrize("kept", [0, 5, 30])
def test_an_incomplete_file_counts_up_to_its_last_whole_event(timed_dir, kept):
    last = max(timed_dir.glob("*tfevents*"))
    whole = last.read_bytes()
    last.write_bytes(whole + whole[:kept])
    assert elapsed(timed_dir).spans == ((1000.0, 1010.0), (5000.0, 5020.0))
    last.write_bytes(whole[:-1])
    assert elapsed(timed_dir).spans[-1] == (5000.0, 5000.0)


def test_files_of_several_writers_are_one_span(timed_dir):
    spans = elapsed(timed_dir).spans
    (timed_dir / "a.tfevents").write_bytes(max(timed_dir.glob("events*")).read_bytes())
    assert elapsed(timed_dir).spans == spans


def test_a_time_outside_of_all_spans_counts_what_came_before():
    clock = Elapsed(((10.0, 20.0), (30.0, 40.0)))
    assert [clock.at(time) for time in (0, 15, 25, 35, 99)] == [0, 5, 10, 15, 20]
    assert [clock.at(float(time)) for time in ("nan", "inf", "-inf")] == [0, 20, 0]


def test_impossible_times_do_not_count(timed_dir, write_timed):
    write_timed(timed_dir, "loss", (1005.0, 1, 4.0), (math.nan, 2, 3.0), (1e300, 3, 2.0))
    assert elapsed(timed_dir).spans == ((1000.0, 1010.0), (5000.0, 5020.0))


def test_files_without_events_have_no_time(tmp_path):
    (tmp_path / "a.tfevents").write_bytes(b"")
    (tmp_path / "b.tfevents").write_bytes(bytes(100))
    assert elapsed(tmp_path).spans == ()
