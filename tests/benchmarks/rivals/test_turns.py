"""Rivals: their environments, and runs in turns."""

import json
import sys

import pytest

from benchmarks.rivals import environments


@pytest.fixture
def turns(monkeypatch):
    """The module as the programs of the rivals see it: its folder is on the path."""
    monkeypatch.syspath_prepend(str(environments.PROGRAMS))
    import turns  # noqa: PLC0415

    yield turns
    for name in ("starts", "turns"):
        sys.modules.pop(name, None)


class Countdown:
    """A program whose loss falls by its setting in each step."""

    def __init__(self, name, setting):
        if name == "broken":
            raise ImportError("no such package")
        self.left, self.setting = 10.0, setting

    def run(self, steps):
        self.left -= self.setting * steps
        return 0.5 * steps

    def loss(self):
        return self.left


def test_race_takes_turns_and_names_what_does_not_start(turns):
    grid = [{"slow": 0.1, "broken": 1.0, "fast": 1.0}, {"slow": 0.2, "broken": 2.0, "fast": 2.0}]
    found = turns.race(Countdown, grid, {"slow": 4, "broken": 2, "fast": 1}, rounds=2)
    assert found["troubles"] == {"broken": "ImportError: no such package"}
    names = [(run["optimizer"], run["setting"]) for run in found["runs"]]
    assert names == [("slow", 0.1), ("fast", 1.0), ("slow", 0.2), ("fast", 2.0)]
    assert found["runs"][1] == {
        "optimizer": "fast",
        "setting": 1.0,
        "steps": [0, 1, 2],
        "seconds": [0.0, 0.5, 1.0],
        "losses": [10.0, 9.0, 8.0],
    }
    assert found["runs"][2]["losses"] == pytest.approx([10.0, 9.2, 8.4])
    json.dumps(found)
