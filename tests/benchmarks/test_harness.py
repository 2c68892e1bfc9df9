import sys
import time
from pathlib import Path

import pytest

from benchmarks import harness


def program(code):
    return [sys.executable, "-c", code]


def test_program_runs_in_the_root_folder_and_its_last_line_is_read():
    said = program("import os; print(os.path.isdir('benchmarks')); print('[1, {\"a\": 2.5}]')")
    assert harness.run_program(said, "talk") == 'True\n[1, {"a": 2.5}]\n'
    assert harness.read_json(said, "talk") == [1, {"a": 2.5}]


def test_failed_and_slow_programs_are_errors():
    with pytest.raises(harness.ChildError, match=r"(?s)Could not time it; .* said:.*out of luck"):
        harness.read_json(program("raise SystemExit('out of luck')"), "time it")
    with pytest.raises(SystemExit, match=r"Could not wait in 0 s\."):
        harness.run_program(program("import time; time.sleep(100)"), "wait", seconds=0.1)


def test_run_ends_slow_program_and_its_children(tmp_path):
    told = tmp_path / "child"
    # A shell starts at once.
    endless = ["sh", "-c", f'sleep 100 & echo $! > "{told}"; sleep 100']
    started = time.monotonic()
    assert "stopped after 0 s" in harness.run_in_time(endless, tmp_path / "log", 0.2)
    assert time.monotonic() - started < 30
    deadline = time.monotonic() + 30
    while _runs(int(told.read_text())):  # A process that is killed takes its time to end.
        assert time.monotonic() < deadline
        time.sleep(0.01)


def _runs(pid):
    """Returns True if a process runs. A zombie counts as ended."""
    status = Path(f"/proc/{pid}/stat")
    return status.exists() and status.read_text().rpartition(")")[2].split()[0] != "Z"


class Clock:
    """Program whose steps take a second more in each block."""

    def __init__(self, calls, name):
        self.calls, self.name = calls, name
        self.seconds = 0.0

    def run(self, steps):
        self.calls.append((self.name, steps))
        self.seconds += 1
        return self.seconds


def test_mean_seconds_include_work_left_running(monkeypatch):
    now = [10.0]
    monkeypatch.setattr(harness.time, "perf_counter", lambda: now[0])

    def step(seconds=1.0):
        now[0] += seconds

    assert harness.mean_seconds(step, 3) == 1.0
    assert harness.mean_seconds(step, 3, lambda: step(6.0)) == 3.0


def test_programs_take_turns():
    calls = []
    programs = {name: Clock(calls, name) for name in "ab"}
    times = harness.take_turns(programs, rounds=2, block=5, warm_up=7)
    assert calls == [("a", 7), ("b", 7), ("a", 5), ("b", 5), ("a", 5), ("b", 5)]
    assert times == {"a": [2.0, 3.0], "b": [2.0, 3.0]}


def test_ratios_and_their_spread():
    found = harness.ratios([1.0, 2.0, 9.0], [2.0, 2.0, 3.0])
    assert found == [0.5, 1.0, 3.0]
    assert harness.spread(found, 2) == "1.00 [0.50, 3.00]"


def test_bars_show_the_medians(tmp_path):
    path, drawn = tmp_path / "bars.png", []
    for value in (1.0, 5.0):
        groups = {"one": {"x": [1.0, value, value], "y": [3.0]}, "two": {"y": [2.0]}}
        harness.draw_bars(str(path), groups, "Title", "ratio")
        drawn.append(path.read_bytes())
    assert drawn[0] != drawn[1]
