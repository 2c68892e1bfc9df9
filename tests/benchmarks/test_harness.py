import sys

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
