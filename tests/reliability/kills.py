"""Kills tasks of a cluster by SIGKILL, one after the other, and measures each recovery.

A run of `trainer.py` goes through phases. In each, one task (or every one that trains or keeps
variables) is killed at a step that a seed gives. Either the number of steps of a phase is given,
and no process goes on to the next phase before the cluster has recovered. Or a phase begins with
the recovery, and training ends after the last one.
"""

import os
import random
import signal
from typing import NamedTuple

PHASE = 40
STEPS = (7, 20)
"""Steps between a recovery and the next kill, where phases have no length."""

TASKS = {
    "worker": ["worker 0"],
    "chief": ["chief 0"],
    "ps": ["ps 0"],
    "evaluator": ["evaluator 0"],
    "all": ["chief 0", "worker 0", "ps 0"],
}
# Whose next step (or evaluation) shows that the cluster has recovered.
WITNESS = {"worker": "worker 0", "evaluator": "evaluator 0"}


class Recovery(NamedTuple):
    """The cost of a kill.

    Attributes:
      kill: What was killed.
      step: The last step that anybody had seen.
      back: The first step that was seen when the cluster had recovered.
      secs: Time between the two; the supervisor lets a second pass before it starts a task again.
      secs_from_import: The part of it after the last of the tasks had imported TensorFlow.
    """

    kill: str
    step: int
    back: int
    secs: float
    secs_from_import: float

    def __str__(self):
        again = max(0, self.step - self.back)
        return (
            f"recovery    | {self.kill:<9} killed at step {self.step:>3}: {self.secs:5.1f} s, "
            f"{self.secs_from_import:4.1f} s since TensorFlow's import; {again} steps again"
        )


class Killer:
    """Kills one after the other, each at a step, and opens the gate to the next phase."""

    def __init__(self, supervisor, journal, folder, kills, seed, phase_steps=PHASE):
        """Keeps the settings.

        Args:
          supervisor: The cluster.
          journal: The display of its output.
          folder: The model directory.
          kills: Keys of `TASKS`, in the order of the kills.
          seed: Draws the steps.
          phase_steps: Steps of a phase, > 20; None for phases without a length.
        """
        self._supervisor = supervisor
        self._journal = journal
        self._folder = folder
        self._kills = list(kills)
        self._draw = random.Random(seed)
        self._phase_steps = phase_steps
        self._seen = 0
        self.recoveries = []
        self._begin_phase()

    def __call__(self, name, text):
        word, _, number = text.partition(" ")
        if name == "launch" or len(self.recoveries) == len(self._kills):
            return
        if word == "imported" and self._killed_at is not None:
            self._imported[name] = self._now()
        elif word in ("step", "evaluated") and number.isdigit():
            self._look(name, word, int(number))

    def _begin_phase(self):
        phase = len(self.recoveries)
        if phase < len(self._kills):
            self._victims = TASKS[self._kills[phase]]
            self._witness = WITNESS.get(self._kills[phase], "chief 0")
            self._at = self._next_step(phase)
            self._killed_at = None
            self._imported = {}

    def _next_step(self, phase):
        length = self._phase_steps
        if length is None:
            return self._seen + self._draw.randrange(*STEPS)
        return length * phase + self._draw.randrange(length * 3 // 10, length - 4)

    def _look(self, name, word, step):
        if self._killed_at is not None:
            if name == self._witness and set(self._imported) >= set(self._victims):
                self._end_phase(step)
        elif word == "step":
            self._seen = max(self._seen, step)
            if step >= self._at and name in (self._victims[0], "chief 0"):
                self._kill()

    def _kill(self):
        pids = [self._supervisor.pid(victim) for victim in self._victims]
        if None not in pids:
            for pid in pids:
                os.killpg(pid, signal.SIGKILL)
            self._killed_at = self._now()

    def _end_phase(self, step):
        imported = max(self._imported[victim] for victim in self._victims)
        secs, secs_from_import = self._now() - self._killed_at, self._now() - imported
        kill = self._kills[len(self.recoveries)]
        self.recoveries.append(Recovery(kill, self._seen, step, secs, secs_from_import))
        print(self.recoveries[-1])
        gate = self._folder / f"go-{len(self.recoveries)}"
        self._seen = max(self._seen, step)
        self._begin_phase()
        gate.touch()
        if self._phase_steps is None and len(self.recoveries) == len(self._kills):
            (self._folder / "end").touch()

    def _now(self):
        return self._journal.entries[-1][0]
