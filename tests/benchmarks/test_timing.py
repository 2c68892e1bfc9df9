from benchmarks import timing


class Clock:
    """A program whose steps take a second more in each block."""

    def __init__(self, calls, name):
        self.calls, self.name = calls, name
        self.seconds = 0.0

    def run(self, steps):
        self.calls.append((self.name, steps))
        self.seconds += 1
        return self.seconds


def test_mean_of_steps(monkeypatch):
    times = iter([10.0, 16.0])
    monkeypatch.setattr(timing.time, "perf_counter", lambda: next(times))
    steps = []
    assert timing.mean_seconds(lambda: steps.append(None), 3) == 2.0
    assert len(steps) == 3


def test_programs_take_turns():
    calls = []
    programs = {name: Clock(calls, name) for name in "ab"}
    times = timing.take_turns(programs, rounds=2, block=5, warm_up=7)
    assert calls == [("a", 7), ("b", 7), ("a", 5), ("b", 5), ("a", 5), ("b", 5)]
    assert times == {"a": [2.0, 3.0], "b": [2.0, 3.0]}


def test_ratios_and_their_spread():
    found = timing.ratios([1.0, 2.0, 9.0], [2.0, 2.0, 3.0])
    assert found == [0.5, 1.0, 3.0]
    assert timing.spread(found, 2) == "1.00 [0.50, 3.00]"
