"""Faults of the network between the tasks of a cluster, all of whose traffic passes proxies.

Each run goes through phases. In each, a fault begins at a step that a seed gives, between some of
the tasks, and ends after some seconds. With -s, a line is printed for each fault.
"""

import random
import threading
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
import tensorflow as tf

TRAINER = Path(__file__).with_name("trainer.py")
PHASE = 40
RATE, MOMENTUM, TARGET = 2.0**-6, 0.5, np.array([1.0, -2.0, 3.0])
START_SECS = 60
"""Seconds for a task to start, twice what it takes on a busy machine."""

FAULTS = {
    "50 ms each way": {"delay_secs": 0.05},
    "500 ms each way": {"delay_secs": 0.5},
    "20 kB/s": {"bytes_per_sec": 20_000},
    "reset": {"resets": True},
    "blackhole": {"silent": "both"},
    "blackhole, bytes lost": {"silent": "both", "loses": True},
    "one way": {"silent": "out"},
    "the other way": {"silent": "back"},
    "forgotten": None,
}
CHIEF, WORKER, PS = "chief 0", "worker 0", "ps 0"
BRIEF = [
    ("50 ms each way", (CHIEF, PS), 5),
    ("500 ms each way", (WORKER, PS), 10),
    ("20 kB/s", (CHIEF, WORKER, PS), 5),
    ("reset", (CHIEF, PS), 1),
    ("reset", (WORKER, PS), 5),
    ("blackhole", (CHIEF, PS), 5),
    ("blackhole", (WORKER, PS), 5),
    ("blackhole", (WORKER, CHIEF), 5),
    ("blackhole", (CHIEF, WORKER, PS), 5),
    ("blackhole, bytes lost", (CHIEF, PS), 5),
    ("blackhole, bytes lost", (WORKER, PS), 5),
    ("one way", (CHIEF, PS), 5),
    ("the other way", (WORKER, PS), 5),
]


class Fault(NamedTuple):
    """A fault, the tasks between which it is, and its seconds."""

    name: str
    tasks: tuple[str, ...]
    secs: float


class Effect(NamedTuple):
    """The effect of a fault.

    Attributes:
      mode: The way of training.
      fault: The fault.
      steps: Steps that the chief and the worker made during the fault.
      back: Seconds from its end until both had made a step.
      ended: Number of processes that ended from its beginning until then.
    """

    mode: str
    fault: Fault
    steps: tuple[int, int]
    back: float
    ended: int

    def __str__(self):
        mode, (name, tasks, secs), (chief, worker), back, ended = self
        between = "-".join(task.split()[0] for task in tasks)
        return (
            f"network     | {mode:<7} {name:<21} {between:<15} {secs:>4.0f} s: chief {chief:>3}, "
            f"worker {worker:>3} steps meanwhile; next steps {back:4.1f} s later; {ended} ended"
        )


class Faults:
    """Makes one fault in each phase, and opens the gate to the next phase when the fault is over.

    Attributes:
      effects: Effects of the faults that are over.
    """

    def __init__(self, mode, faults, plan, condition, folder, seed):
        self.effects = []
        self._mode = mode
        self._faults = [Fault(*fault) for fault in faults]
        self._plan = plan
        self._condition = condition
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
        self._at = PHASE * len(self.effects) + self._draw.randrange(12, PHASE - 12)
        self._has_begun = False
        self._over_at = None
        self._during = {CHIEF: 0, WORKER: 0}
        self._after = set()
        self._ended = 0

    def _begin_fault(self):
        self._has_begun = True
        fault = self._faults[len(self.effects)]
        links = self._plan.between(*fault.tasks)
        for link in links:
            if FAULTS[fault.name] is None:
                link.forget()
            else:
                link.condition = self._condition(**FAULTS[fault.name])
        self._timers.append(threading.Timer(fault.secs, self._end_fault, [links]))
        self._timers[-1].start()

    def _end_fault(self, links):
        for link in links:
            link.condition = self._condition()
        self._over_at = time.monotonic()
        (self._folder / f"go-{len(self.effects) + 1}").touch()

    def _end_phase(self):
        steps = (self._during[CHIEF], self._during[WORKER])
        back = time.monotonic() - self._over_at
        fault = self._faults[len(self.effects)]
        self.effects.append(Effect(self._mode, fault, steps, back, self._ended))
        print(self.effects[-1])
        self._begin_phase()


@pytest.fixture
def train_with(cluster, journal, proxied_plan, network, tmp_path):
    """Trains while the network has faults; returns exit code, effects, and the last checkpoint."""

    def train(mode, faults, step_timeout_secs, timeout_secs=120, restarts=6, seed=0):
        plan = proxied_plan()
        supervisor = cluster(
            TRAINER,
            mode,
            tmp_path,
            PHASE * (len(faults) + 1),
            PHASE,
            plan=plan,
            evaluator=False,
            restarts=restarts,
            environment={
                "STEP_TIMEOUT_SECS": str(step_timeout_secs),
                "TIMEOUT_SECS": str(timeout_secs),
                "VERBOSITY": "WARN",
            },
        )
        with Faults(mode, faults, plan, network.Condition, tmp_path, seed) as made:
            journal.react = made
            code = supervisor.run()
        return code, made.effects, tf.train.load_checkpoint(str(tmp_path))

    return train


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
    """Compares with NumPy; asynchronous training may lose or double an update for each loss."""
    last = int(saved.get_tensor("global_step"))
    if mode == "sync":
        assert last == steps
        for name, expected in numpy_after(steps).items():
            np.testing.assert_allclose(saved.get_tensor(name), expected, rtol=1e-6, err_msg=name)
        return
    assert steps <= last <= steps + 1
    updates = -saved.get_tensor("total") / RATE / (2 if mode == "average" else 1)
    assert abs(updates - last) <= losses + 1


def errors_of(journal):
    """Lines with which processes ended because of others."""
    return [text for name in (CHIEF, WORKER, PS) for text in journal.of(name) if "has made" in text]


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("mode", ["sync", "async", "average"])
def test_training_goes_on_after_brief_faults(mode, train_with, journal):
    code, effects, saved = train_with(mode, BRIEF, step_timeout_secs=60, seed=1)
    assert code == 0
    assert len(effects) == len(BRIEF)
    assert [effect.ended for effect in effects] == [0] * len(BRIEF)
    assert max(effect.back for effect in effects) < 30
    check_weights(mode, saved, PHASE * (len(BRIEF) + 1), losses=len(BRIEF))


@pytest.mark.slow
@pytest.mark.timeout(400)
@pytest.mark.parametrize("mode", ["sync", "async", "average"])
def test_a_long_blackhole_below_the_limit_is_waited_for(mode, train_with):
    faults = [("blackhole", (CHIEF, WORKER, PS), 60)]
    code, effects, saved = train_with(mode, faults, step_timeout_secs=120)
    assert code == 0
    assert [effect.ended for effect in effects] == [0]
    check_weights(mode, saved, 2 * PHASE, losses=1)


@pytest.mark.slow
@pytest.mark.timeout(400)
@pytest.mark.parametrize("mode", ["sync", "async", "average"])
@pytest.mark.parametrize("name", ["blackhole", "blackhole, bytes lost"])
def test_a_blackhole_beyond_the_limit_ends_with_the_name(name, mode, train_with, journal):
    started = []

    faults = [(name, (CHIEF, WORKER, PS), 60)]
    code, effects, _ = train_with(mode, faults, step_timeout_secs=20, restarts=0)
    del started
    assert effects == []
    assert code == 138
    lines = errors_of(journal)
    assert lines
    assert all("no answer from" in line and " at '127.0.0.1:" in line for line in lines)
    print(f"network     | {mode:<7} {name:<21} 60 s, limit 20 s: exit code {code}: {lines[0]}")


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("mode", ["sync", "async", "average"])
@pytest.mark.parametrize("tasks", [(CHIEF, PS), (WORKER, PS)], ids=["chief", "worker"])
def test_forgotten_connections_are_named_and_made_anew(tasks, mode, train_with, journal):
    faults = [("forgotten", tasks, 5), ("blackhole", (WORKER, PS), 5)]
    code, effects, saved = train_with(mode, faults, step_timeout_secs=START_SECS)
    assert code == 0
    assert effects[0].back < 6 * START_SECS
    assert any("is dead: no value" in line for line in errors_of(journal))
    if mode == "sync":
        check_weights(mode, saved, 3 * PHASE, losses=0)
