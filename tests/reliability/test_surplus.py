"""A surplus worker that restarts all the time does not disturb synchronous training.

Two gradients make a step, and three processes send gradients: chief and worker, and a surplus
worker that is killed after each of its first steps. The same model is trained by an Estimator and
by TensorFlow's own MonitoredTrainingSession. With -s, a line is printed for each.
"""

import os
import signal
import time
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import pytest

from replicate.launch import supervisor as launcher

KILLS = 4
REPLICAS = 2
SURPLUS = "worker 1"
PROGRAMS = {"estimator": "trainer.py", "plain TensorFlow": "plain_sync.py"}


class Surplus:
    """Kills the surplus worker at each of its first steps, and ends the job after some kills.

    Attributes:
      kills: Number of kills.
      sent: Number of gradients that were sent.
      step: The last step.
      times: Times of the chief's steps since the first kill.
    """

    def __init__(self):
        self.supervisor = None
        self.kills, self.sent, self.step, self.times = 0, 0, 0, []

    def __call__(self, name, text):
        if not text.startswith("step ") or self.kills == KILLS:
            return
        self.sent += 1
        self.step = max(self.step, int(text[5:]))
        if name == "chief 0" and self.kills:
            self.times.append(time.monotonic())
        pid = self.supervisor.pid(SURPLUS)
        if name == SURPLUS and pid is not None:
            self.kills += 1
            os.killpg(pid, signal.SIGKILL)
            if self.kills == KILLS:
                os.kill(os.getpid(), signal.SIGTERM)  # TensorFlow's own chief does not end.


class Result(NamedTuple):
    """The result of a training.

    Attributes:
      program: What trained.
      steps: The last step.
      dropped: Gradients that were sent, and are in no step.
      rate: Steps of the chief per second, between the first kill and the end.
      pause: Seconds of the longest of these steps.
    """

    program: str
    steps: int
    dropped: int
    rate: float
    pause: float

    def __str__(self):
        return (
            f"network     | surplus worker, {self.program}: {KILLS} restarts, {self.steps} steps, "
            f"{self.rate:.1f} per second, longest {self.pause:.2f} s; {self.dropped} gradients "
            "dropped"
        )


@pytest.fixture
def train(cluster, journal, tmp_path, monkeypatch):
    """Trains with a program, and returns the result."""
    monkeypatch.setattr(launcher, "_MAX_DELAY_SECS", 0.1)

    def run(name):
        folder = tmp_path / name.replace(" ", "-")
        folder.mkdir()
        journal.react = surplus = Surplus()
        surplus.supervisor = cluster(
            Path(__file__).with_name(PROGRAMS[name]),
            "sync",
            folder,
            10**6,
            10**6,
            workers=3,
            evaluator=False,
            restarts=100,
            environment={"REPLICAS": str(REPLICAS)},
        )
        assert surplus.supervisor.run() == 128 + signal.SIGTERM
        pauses = [after - before for before, after in pairwise(surplus.times)]
        rate = len(pauses) / sum(pauses)
        dropped = surplus.sent - REPLICAS * surplus.step
        return Result(name, surplus.step, dropped, rate, max(pauses))

    return run


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_surplus_worker_that_restarts_disturbs_no_more_than_in_tensorflow(train):
    ours, plain = results = [train(name) for name in PROGRAMS]
    for result in results:
        print(result)
    assert ours.pause < 10
    assert ours.rate > plain.rate / 2
    assert ours.dropped / ours.steps <= plain.dropped / plain.steps + 0.1
