"""Faults in the middle of a training, one after the other, and what they did.

The training is that of `trainer.py`. Two of its phases belong to each fault. The fault begins at a
step of the first one that a seed gives. It ends after some seconds, and the gate to the second
phase opens then. The gate behind that opens when chief and worker have made a step. With -s, a line
is printed for each fault.
"""

import dataclasses
import random
import threading
import time
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

PHASE = 40
RATE, MOMENTUM, TARGET = 2.0**-6, 0.5, np.array([1.0, -2.0, 3.0])
CHIEF, WORKER, PS, EVALUATOR = "chief 0", "worker 0", "ps 0", "evaluator 0"


@dataclasses.dataclass(frozen=True)
class Fault:
    """A fault.

    Attributes:
      name: Its name.
      secs: Seconds that it lasts.
      begin: Makes it begin.
      end: Makes it end; called in another thread.
    """

    name: str
    secs: float
    begin: Callable[[], object]
    end: Callable[[], object]


class Effect(NamedTuple):
    """The effect of a fault.

    Attributes:
      kind: Kind of the faults, the first word of the printed line.
      mode: The way of training.
      fault: The fault.
      steps: Steps that the chief and the worker made during the fault.
      back: Seconds from its end until both had made a step.
      ended: Number of processes that ended from its beginning until then.
    """

    kind: str
    mode: str
    fault: Fault
    steps: tuple[int, int]
    back: float
    ended: int

    def __str__(self):
        fault, (chief, worker) = self.fault, self.steps
        return (
            f"{self.kind:<11} | {self.mode:<7} {fault.name:<38} {fault.secs:>2} s: chief "
            f"{chief:>3}, worker {worker:>3} steps meanwhile; next steps {self.back:4.1f} s later; "
            f"{self.ended} ended"
        )


def steps_for(count):
    """Returns the last step of a training with that many faults."""
    return PHASE * (2 * count + 1)


class Faults:
    """Makes faults, one after the other; called with each line of each task.

    Attributes:
      effects: Effects of the faults that are over.
    """

    def __init__(self, kind, mode, faults, folder, seed):
        self.effects = []
        self._kind = kind
        self._mode = mode
        self._faults = list(faults)
        self._folder = folder
        self._draw = random.Random(seed)
        self._timers = []
        self._begin_phase()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for timer in self._timers:
            timer.cancel()
            timer.join()

    def __call__(self, name, text):
        word, _, number = text.partition(" ")
        if len(self.effects) == len(self._faults):
            return
        if name == "launch":
            self._ended += self._has_begun and " has ended with exit code" in text
        elif word == "step" and number.isdigit():
            self._take_step(name, int(number))

    def _take_step(self, name, step):
        if not self._has_begun:
            if name == CHIEF and step >= self._at:
                self._begin_fault()
        elif self._over_at is None:
            self._during[name] += 1
        else:
            self._after.add(name)
            if self._after == {CHIEF, WORKER}:
                self._end_phase()

    def _begin_phase(self):
        self._at = 2 * PHASE * len(self.effects) + self._draw.randrange(12, PHASE - 12)
        self._has_begun = False
        self._over_at = None
        self._during = {CHIEF: 0, WORKER: 0}
        self._after = set()
        self._ended = 0

    def _begin_fault(self):
        self._has_begun = True
        fault = self._faults[len(self.effects)]
        fault.begin()
        self._timers.append(threading.Timer(fault.secs, self._end_fault, [fault]))
        self._timers[-1].start()

    def _end_fault(self, fault):
        fault.end()
        self._over_at = time.monotonic()
        (self._folder / f"go-{2 * len(self.effects) + 1}").touch()

    def _end_phase(self):
        steps = (self._during[CHIEF], self._during[WORKER])
        back = time.monotonic() - self._over_at
        fault = self._faults[len(self.effects)]
        self.effects.append(Effect(self._kind, self._mode, fault, steps, back, self._ended))
        print(self.effects[-1])
        self._begin_phase()
        (self._folder / f"go-{2 * len(self.effects)}").touch()


def numpy_after(steps):
    """The result of synchronous training."""
    target = np.array([*TARGET, 0.0])
    values, velocities = np.zeros(4), np.zeros(4)
    for _ in range(steps):
        gradients = np.array([*(values - target)[:3], 1.0])
        velocities = MOMENTUM * velocities + gradients
        values = values - RATE * velocities
    return {
        "weights": values[:3],
        "weights/Momentum": velocities[:3],
        "total": values[3],
        "total/Momentum": velocities[3],
    }


def check_weights(mode, saved, steps, losses):
    """Compares a checkpoint with NumPy.

    Args:
      mode: The way of training. All but the synchronous one may lose or double an update for each
        loss of a session.
      saved: Reader of the checkpoint.
      steps: The last step.
      losses: Number of lost sessions, at most.
    """
    last = int(saved.get_tensor("global_step"))
    if mode == "sync":
        assert last == steps
        for name, expected in numpy_after(steps).items():
            np.testing.assert_allclose(saved.get_tensor(name), expected, rtol=1e-6, err_msg=name)
        return
    assert steps <= last <= steps + 1
    updates = -saved.get_tensor("total") / RATE / (2 if mode == "average" else 1)
    assert abs(updates - last) <= losses + 1
