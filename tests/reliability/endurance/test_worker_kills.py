"""Workers without parameter servers are killed again and again, in each phase of training.

A kill hits the chief or a worker at its start, between two steps, in the middle of a step or in a
save. All processes then start again. The weights tell in the end if an update was lost or made
twice. KILLS in the environment is the number of kills; with -s, a line is printed for each phase.
"""

import collections
import os
import random
import signal
import statistics
import threading
import time
from pathlib import Path

import pytest
import tensorflow as tf

TRAINER = Path(__file__).parents[1] / "trainer.py"
KILLS = int(os.environ.get("KILLS", "100"))
PHASES = ("start", "step", "reduction", "save")
TASKS = ("chief 0", "worker 0", "worker 1")
NEVER = 10**6
SECS_PER_KILL = 60


class Killer:
    """Kills one task after the other.

    Attributes:
      recoveries: Seconds from each kill to the chief's next step, by phase.
    """

    def __init__(self, folder, seed):
        self.supervisor = None
        self.recoveries = collections.defaultdict(list)
        self._folder = folder
        self._draw = random.Random(seed)
        self._count = 0
        self._killed_at = None
        self._victim, self._line, self._delay = None, None, 0.0
        self._plan()

    def __call__(self, name, text):
        word = text.partition(" ")[0]
        if self._killed_at is not None:
            if name == "chief 0" and word == "step":
                self.recoveries[self._phase].append(time.monotonic() - self._killed_at)
                self._killed_at = None
                self._count += 1
                self._plan()
        elif self._is_armed and (name, word) == self._line:
            self._is_armed = False
            threading.Timer(self._delay, self._kill).start()

    def _plan(self):
        """Draws the next kill; after the last one, ends training."""
        if self._count == KILLS:
            (self._folder / "end").touch()
            self._is_armed = False
            return
        self._phase = PHASES[self._count % len(PHASES)]
        self._victim = self._draw.choice(TASKS)
        word = {"start": "imported", "save": "saving"}.get(self._phase, "step")
        self._line = ("chief 0" if word == "saving" else self._victim, word)
        longest = {"start": 2.0, "reduction": 0.03, "save": 0.02}.get(self._phase, 0.0)
        self._delay = self._draw.uniform(0, longest)
        self._is_armed = True
        if word == "imported":  # The victim must start once more, since nobody is starting now.
            self._kill_at_once(self._draw.choice(TASKS))

    def _kill_at_once(self, name):
        pid = self.supervisor.pid(name) if self.supervisor else None
        if pid is not None:
            os.killpg(pid, signal.SIGKILL)

    def _kill(self):
        self._kill_at_once(self._victim)
        self._killed_at = time.monotonic()


@pytest.mark.slow
@pytest.mark.timeout(KILLS * SECS_PER_KILL)
def test_training_survives_kills_in_each_phase(cluster, journal, tmp_path, faulty):
    killer = Killer(tmp_path, seed=1)
    killer.supervisor = supervisor = cluster(
        TRAINER,
        "reduce",
        tmp_path,
        NEVER,
        NEVER,
        workers=len(TASKS),
        ps=0,
        evaluator=False,
        restarts=3 * KILLS + 10,
        max_delay_secs=0.5,
        forks=True,
        environment={"TIMEOUT_SECS": "120", "STEP_TIMEOUT_SECS": "60"},
    )
    journal.react = killer
    assert supervisor.run() == 0
    steps = int(tf.train.load_checkpoint(str(tmp_path)).get_tensor("global_step"))
    faulty.check_weights("sync", tf.train.load_checkpoint(str(tmp_path)), steps, losses=0)
    assert sum(map(len, killer.recoveries.values())) == KILLS
    for phase, secs in killer.recoveries.items():
        print(
            f"all-reduce  | {phase:<9}: {len(secs)} kills, next step after "
            f"{statistics.median(secs):.1f} s (median), {max(secs):.1f} s (longest)"
        )
