"""Workers are lost, and the others go on with fewer; real processes, whose weights NumPy knows."""

import contextlib
import importlib.util
import itertools
import json
import os
import random
import signal
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from replicate.launch import regrouping

TRAINER = Path(__file__).with_name("elastic_trainer.py")
FAULTS = int(os.environ.get("FAULTS", "10"))
"""Faults of the random test."""

SAVE_STEPS = 10
"""Steps between two checkpoints of the random test."""

NEVER = 1e6
"""Seconds until a lost worker comes back by itself."""


@pytest.fixture(scope="session")
def reference():
    """The module `elastic_trainer.py`, for its NumPy."""
    spec = importlib.util.spec_from_file_location("elastic_trainer", TRAINER)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def train(cluster, journal, tmp_path, reference):
    """Trains under a launcher, which `react` may disturb, and compares the weights with NumPy's.

    Returns pairs of the numbers of steps and of workers, one after the other.
    """

    def run(react, every=0, steps=16, workers=3, restarts=9, program=(TRAINER,), **settings):
        supervisor = cluster(
            *program,
            tmp_path,
            steps,
            every,
            workers=workers,
            ps=0,
            evaluator=False,
            restarts=restarts,
            min_workers=2,
            forks=os.environ.get("FORKS") != "0",
            **{"max_delay_secs": 0.1, **settings},
        )
        journal.react = lambda name, text: react(supervisor, name, text)
        assert supervisor.run() == 0
        found = phases(journal)
        assert all(size > 0 for _, size in found), "a step is missing"
        (line,) = [text for _, _, text in journal.entries if text.startswith("weights ")]
        weights = np.array(line.split()[1:], float)
        if "STREAM" not in os.environ:
            expected = reference.expected(found, every)
            np.testing.assert_allclose(weights, expected, rtol=0, atol=1e-6)
        assert not journal.left()
        return found

    return run


def phases(journal):
    """Pairs of the number of steps and of the workers that made them, of the last state."""
    (line,) = [text for _, _, text in journal.entries if text.startswith("sizes ")]
    groups = itertools.groupby(map(int, line.split()[1:]))
    return [(len(list(group)), size) for size, group in groups]


def seconds_between(journal, first, then):
    """Seconds from a line of the launcher that holds a text to the next line of a task."""
    start = next(time for time, _, text in journal.entries if first in text)
    return next(time for time, _, text in journal.entries if time > start and then in text) - start


@pytest.mark.broad
@pytest.mark.timeout(240)
def test_the_others_go_on_without_a_killed_chief_which_comes_back(train, journal, monkeypatch):
    monkeypatch.setattr(regrouping, "STEADY_SECS", 0)
    left = [("chief 0", "step 4 of 3"), ("worker 1", "step 9 of 2")]

    def react(supervisor, name, text):
        if not left or (name, text) != left[0]:
            return
        state = supervisor._states["chief 0"]
        if left.pop(0)[0] == "chief 0":
            state.next_delay_secs = NEVER
            os.killpg(state.process.pid, signal.SIGKILL)
        else:
            state.back_at = 0.0

    found = train(react, steps=60, max_delay_secs=NEVER)
    assert [size for _, size in found] == [3, 2, 3]
    assert found[0][0] >= 3, "the step in which one is lost may be made again, no other"
    assert any(text.startswith("worker 0 as chief 0 at ") for text in journal.of("launch"))
    print(f"{seconds_between(journal, 'ended with exit code 137', ' of 2'):.1f} s")


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
@pytest.mark.parametrize("victim", ["chief 0", "worker 1"])
@pytest.mark.parametrize("every", [0, 4])
def test_workers_go_on_after_a_kill_or_a_stop(train, journal, every, victim, number):
    is_done = []

    def react(supervisor, name, text):
        if not is_done and (name, text) == (victim, "step 6 of 4"):
            is_done.append(True)
            os.killpg(supervisor.pid(victim), number)

    found = train(react, every, workers=4, restarts=0)
    assert [size for _, size in found] == [4, 3]
    assert found[0][0] % (every or 1) == 0
    print(f"{seconds_between(journal, 'ended with exit code 137', ' of 3'):.1f} s")


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_worker_that_does_not_answer_is_lost_although_its_process_lives(
    train, journal, monkeypatch
):
    """As one whose link is cut: the launcher does not see that it is stopped."""
    monkeypatch.setattr(regrouping, "_is_stopped", lambda pid: False)
    is_done = []

    def react(supervisor, name, text):
        if not is_done and (name, text) == ("worker 0", "step 5 of 3"):
            is_done.append(True)
            os.killpg(supervisor.pid(name), signal.SIGSTOP)

    assert [size for _, size in train(react, restarts=0)] == [3, 2]
    assert any("no answer from worker 0 at " in text for text in journal.of("chief 0"))
    assert any(text.startswith("worker 0 does not leave") for text in journal.of("launch"))
    print(f"{seconds_between(journal, 'step 5 of 3', ' of 2'):.1f} s")


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("victim", ["chief 0", "worker 1"])
@pytest.mark.parametrize("every", [0, 4])
def test_the_others_go_on_without_a_worker_whose_link_is_cut(
    train, journal, proxied_plan, through_proxies, network, every, victim
):
    """Nothing gets through, and no end is told: the cut worker knows that it is the lost one."""
    plan, is_done = proxied_plan(workers=4, ps=0), []

    def react(supervisor, name, text):
        if not is_done and (name, text) == (victim, "step 6 of 4"):
            is_done.append(True)
            plan.cut(victim, network.Condition(silent="both", loses=True))

    found = train(react, every, program=[*through_proxies, TRAINER], plan=plan, restarts=0)
    assert [size for _, size in found] == [4, 3]
    said = f"{victim} has ended with exit code 140 (cut off); those that are left go on"
    assert said in journal.of("launch")
    print(f"{seconds_between(journal, 'step 6 of 4', ' of 3'):.1f} s")


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("stream", [{"fragments": 2}, {"fragments": 2, "delay": 1, "bits": 8}])
def test_rounds_of_fragments_go_on_near_the_newest_step(train, journal, monkeypatch, stream):
    monkeypatch.setenv("STREAM", json.dumps(stream))
    is_done = []

    def react(supervisor, name, text):
        if not is_done and (name, text) == ("chief 0", "step 11 of 3"):
            is_done.append(True)
            os.killpg(supervisor.pid(name), signal.SIGKILL)

    (steps, size), (_, then) = train(react, 4, steps=24, restarts=0)
    assert (size, then) == (3, 2)
    assert steps >= 9, "not from the start of the group"
    (line,) = [text for _, _, text in journal.entries if text.startswith("weights ")]
    truth = np.arange(1.0, 4)
    errors = np.array(line.split()[1:], float) - truth
    assert np.linalg.norm(errors) < 0.8 * np.linalg.norm(truth), "it has learnt"


class RandomFaults:
    """Kills or stops workers at random times, also while they start, save or leave.

    A frozen one is stopped without the launcher's knowledge, as one on another machine whose link
    is cut, and wakes some seconds later. Or all links of a worker are silent for some seconds.
    """

    def __init__(self, chance, silent, whole):
        self.made, self.recoveries, self.steps_back = [], [], []
        self.frozen = set()
        self.timers = []
        self._chance, self._silent, self._whole = chance, silent, whole
        self._newest, self._at, self._has_lost = 0, None, False

    def __call__(self, supervisor, name, text):
        self._has_lost = self._has_lost or "those that are left go on" in text
        if text.startswith("step "):
            self._note(int(text.split()[1]))
        is_moment = text.startswith(("step ", "ready", "imported")) and self._chance.random() < 0.05
        names = [each for each in NAMES if supervisor.pid(each) is not None]
        if not is_moment or len(self.made) >= FAULTS or len(names) < 2:
            return
        kind = self._chance.choice(["kill", "stop", "freeze", "kill two", "stop two", "cut"])
        time.sleep(self._chance.random() * 0.1)
        victims = self._chance.sample(names, 2 if kind.endswith("two") else 1)
        self.made.append((kind, *victims, text))
        if self._at is None:
            self._at, self._has_lost = time.monotonic(), False
        print(f"fault {len(self.made)}: {self.made[-1]}")
        if kind == "cut":
            plan, task = supervisor._plan, str(supervisor._states[victims[0]].task)
            plan.cut(task, self._silent)
            self._later(plan.cut, task, self._whole)
            return
        for pid in filter(None, map(supervisor.pid, victims)):
            with contextlib.suppress(ProcessLookupError):  # It may have ended meanwhile.
                os.killpg(pid, signal.SIGKILL if kind.startswith("kill") else signal.SIGSTOP)
            if kind == "freeze":
                self.frozen.add(pid)
                self._later(_wake, pid)

    def _later(self, function, *arguments):
        """Calls a function up to 8 seconds later."""
        self.timers.append(threading.Timer(8 * self._chance.random(), function, arguments))
        self.timers[-1].start()

    def _note(self, step):
        """Keeps how far training went back, and the seconds from a fault to the next new step."""
        if step < self._newest:
            self.steps_back.append(self._newest - step)
        elif step > self._newest and self._at is not None and self._has_lost:
            self.recoveries.append(time.monotonic() - self._at)
            self._at = None
        self._newest = max(self._newest, step)


NAMES = ("chief 0", "worker 0", "worker 1", "worker 2")


def _wake(pid):
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGCONT)


@pytest.mark.slow
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("every", [0, 4])
def test_random_faults(train, proxied_plan, through_proxies, network, monkeypatch, every):
    """The job goes on after each, and ends with NumPy's weights for those that took part."""
    monkeypatch.setattr(regrouping, "STEADY_SECS", 5)
    monkeypatch.setenv("SAVE_STEPS", str(SAVE_STEPS))
    seed = int(os.environ.get("SEED", random.SystemRandom().getrandbits(32)))
    print("SEED", seed)
    silent = network.Condition(silent="both", loses=True)
    faults = RandomFaults(random.Random(seed), silent, network.Condition())
    is_stopped = regrouping._is_stopped
    monkeypatch.setattr(
        regrouping, "_is_stopped", lambda pid: pid not in faults.frozen and is_stopped(pid)
    )
    try:
        train(
            faults,
            every,
            steps=20 * FAULTS,
            restarts=1000,
            program=[*through_proxies, TRAINER],
            plan=proxied_plan(workers=4, ps=0),
        )
    finally:
        for timer in faults.timers:
            timer.join()
        secs = sorted(faults.recoveries) or [0.0]
        print(
            f"elastic | {len(faults.made)} faults, every={every}: next step after {secs[0]:.1f} to "
            f"{secs[-1]:.1f} s, median {secs[len(secs) // 2]:.1f} s; "
            f"at most {max(faults.steps_back, default=0)} steps back"
        )
    assert len(faults.made) == FAULTS
    assert max(faults.steps_back, default=0) <= SAVE_STEPS + every
