"""Workers are lost, and the others go on with fewer; real processes, whose weights NumPy knows."""

import importlib.util
import itertools
import os
import random
import signal
from pathlib import Path

import numpy as np
import pytest

from replicate.launch import regrouping

TRAINER = Path(__file__).with_name("elastic_trainer.py")
FAULTS = int(os.environ.get("FAULTS", "10"))
"""Faults of the random test."""

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

    def run(react, every=0, steps=16, workers=3, restarts=9, **settings):
        supervisor = cluster(
            TRAINER,
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
        assert sum(count for count, _ in found) == steps, "a step is missing"
        (line,) = [text for _, _, text in journal.entries if text.startswith("weights ")]
        weights = np.array(line.split()[1:], float)
        np.testing.assert_allclose(weights, reference.expected(found, every), rtol=0, atol=1e-6)
        assert not journal.left()
        return found

    return run


def phases(journal):
    """Pairs of the number of steps and of the workers that made them, for the last time."""
    words = [text.split() for _, _, text in journal.entries if text.startswith("step ")]
    sizes = {int(step): int(size) for _, step, _, size in words}
    groups = itertools.groupby(sizes[step] for step in sorted(sizes))
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
    assert found[0][0] >= 4, "they go on at the step that they have"
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


@pytest.mark.slow
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("every", [0, 4])
def test_random_faults(train, journal, monkeypatch, every):
    """Any worker is killed or stopped at any time, also while the others start or save."""
    monkeypatch.setattr(regrouping, "STEADY_SECS", 5)
    seed = int(os.environ.get("SEED", random.SystemRandom().getrandbits(32)))
    print("SEED", seed)
    chance = random.Random(seed)
    made = []

    def react(supervisor, name, text):
        is_moment = text.startswith(("step ", "ready", "imported")) and chance.random() < 0.04
        pid = supervisor.pid(name) if is_moment else None
        if pid is not None and len(made) < FAULTS:
            number = chance.choice([signal.SIGKILL, signal.SIGSTOP])
            made.append((name, text, number.name))
            os.killpg(pid, number)

    train(react, every, steps=40 * FAULTS, workers=4, restarts=1000)
    print(f"{len(made)} faults: {made}")
    assert len(made) == FAULTS
