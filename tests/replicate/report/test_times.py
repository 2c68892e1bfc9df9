import json

import pytest

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
    assert times.facts() == {
        "total time": "20 s",
        "time per step": "100 ms",
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
    "text",
    ["", "{", "[]", "{}", '{"seconds": [1], "steps": "x"}', '{"seconds": {"start": NaN}}'],
)
def test_a_damaged_file_tells_nothing(tmp_path, text):
    (tmp_path / "time.json").write_text(text)
    assert read_times(tmp_path).facts() == {}
    assert read_times(tmp_path).shares() == []


def test_no_file_and_a_link_tell_nothing(tmp_path):
    assert read_times(tmp_path) == UNKNOWN
    (tmp_path / "elsewhere.json").write_text(json.dumps(WRITTEN))
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "time.json").symlink_to(tmp_path / "elsewhere.json")
    assert read_times(tmp_path / "run") == UNKNOWN


def test_steps_without_time_have_no_time_per_step(tmp_path):
    (tmp_path / "time.json").write_text(json.dumps({**WRITTEN, "steps": 0}))
    assert read_times(tmp_path).per_step is None
