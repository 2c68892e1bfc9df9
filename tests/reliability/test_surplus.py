"""A surplus worker that restarts all the time does not disturb synchronous training.

Two gradients make a step, and three processes send gradients: chief and worker, and a surplus
worker that is killed after each of its first steps. With -s, a line is printed.
"""

import os
import signal
import time
from itertools import pairwise
from pathlib import Path

import pytest

KILLS = 4
REPLICAS = 2
SURPLUS = "worker 1"


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
                os.kill(os.getpid(), signal.SIGTERM)


@pytest.mark.slow
@pytest.mark.timeout(450)
def test_surplus_worker_that_restarts_does_not_disturb_the_others(cluster, journal, tmp_path):
    journal.react = surplus = Surplus()
    surplus.supervisor = cluster(
        Path(__file__).with_name("trainer.py"),
        "sync",
        tmp_path,
        10**6,
        10**6,
        workers=3,
        evaluator=False,
        restarts=100,
        max_delay_secs=0.1,
        environment={"REPLICAS": str(REPLICAS)},
    )
    assert surplus.supervisor.run() == 128 + signal.SIGTERM
    pauses = [after - before for before, after in pairwise(surplus.times)]
    rate, dropped = len(pauses) / sum(pauses), surplus.sent - REPLICAS * surplus.step
    print(
        f"network     | surplus worker: {KILLS} restarts, {surplus.step} steps, {rate:.1f} per "
        f"second, longest {max(pauses):.2f} s; {dropped} gradients dropped"
    )
    assert max(pauses) < 10
    assert rate > 1
    assert dropped <= 1.1 * surplus.step, "one of the three gradients of each step"
