"""Workers without parameter servers are killed, stopped or cut off; the others name them and go on.

Every process ends when one is lost, with the exit code after which the launcher starts it again.
"""

import json
import os
import signal
import threading
import time
from pathlib import Path

import pytest
import tensorflow as tf

TRAINER = Path(__file__).with_name("trainer.py")
STEPS, SAVE_STEPS = 30, 10
NEVER = 10**6
"""Steps of a phase that does not end."""


class Signals:
    """Sends signals, each at a line of a task."""

    def __init__(self, *plan):
        """Takes (line, task of the line, signal) in the order of the signals."""
        self.supervisor = None
        self.left = list(plan)

    def __call__(self, name, text):
        if self.left and (text, name) == self.left[0][:2]:
            pid = self.supervisor.pid(name)
            if pid is not None:
                os.killpg(pid, self.left.pop(0)[-1])


@pytest.fixture
def train(cluster, journal, tmp_path, faulty):
    """Trains to the end, and compares the weights with NumPy's."""

    def run(program, reaction, step_timeout_secs, mode="reduce", **settings):
        supervisor = cluster(
            *program,
            mode,
            tmp_path,
            STEPS,
            NEVER,
            ps=0,
            evaluator=False,
            restarts=20,
            max_delay_secs=0.2,
            environment={
                "TIMEOUT_SECS": "60",
                "STEP_TIMEOUT_SECS": str(step_timeout_secs),
            },
            **settings,
        )
        reaction.supervisor = supervisor
        journal.react = reaction
        assert supervisor.run() == 0
        saved = tf.train.load_checkpoint(str(tmp_path))
        faulty.check_weights("sync", saved, STEPS, losses=0)
        return [text for text in journal.of("launch") if "has ended with exit code 138" in text]

    return run


def named(journal, name, lost):
    """The lines in which a process says who is lost."""
    return [text for text in journal.of(name) if "no answer from" in text and lost in text]


@pytest.mark.timeout(240)
def test_killed_worker_is_named_and_all_go_on(train, journal, tmp_path):
    """They also evaluate every checkpoint together, before and after the kill."""
    signals = Signals(("step 13", "worker 0", signal.SIGKILL))
    assert train([TRAINER], signals, 20, "evaluate", workers=2)
    assert not signals.left
    assert named(journal, "chief 0", "worker 0 at ")
    evaluated = [
        [text for text in journal.of(name) if text.startswith("evaluated ")]
        for name in ("chief 0", "worker 0")
    ]
    assert evaluated[0] == evaluated[1]
    assert evaluated[0][-1] == f"evaluated {STEPS}"
    lines = (tmp_path / "eval" / "metrics.jsonl").read_text().splitlines()
    steps = [each["step"] for each in map(json.loads, lines) if each.get("evaluation") == "eval"]
    assert steps == sorted(steps)
    assert steps[-1] == STEPS


class SignalsAndWake(Signals):
    """Wakes a stopped worker some time after the chief has missed it."""

    timer = None

    def __call__(self, name, text):
        super().__call__(name, text)
        if self.timer is None and name == "chief 0" and "no answer from worker 1 at" in text:
            pid = self.supervisor.pid("worker 1")
            self.timer = threading.Timer(1.0, os.killpg, (pid, signal.SIGCONT))
            self.timer.start()


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_stopped_worker_comes_back_and_a_chief_that_is_killed_in_a_save(train, journal):
    """And one gets a signal that lets it save."""
    signals = SignalsAndWake(
        ("step 5", "worker 1", signal.SIGSTOP),
        ("saving 20", "chief 0", signal.SIGKILL),
        ("step 25", "worker 0", signal.SIGTERM),
    )
    assert len(train([TRAINER], signals, 5, workers=3)) >= 3
    assert not signals.left
    assert signals.timer is not None
    assert named(journal, "worker 0", "chief 0 at ")
    assert any("signal has asked worker 0 at" in text for text in journal.of("chief 0"))


class CutLink:
    """Cuts the links of two tasks at a step, and mends them some time after the cut was noticed."""

    def __init__(self, links, cut, whole):
        self._links, self._cut, self._whole = links, cut, whole
        self.cut_at = self.noticed_secs = self.timer = None

    def __call__(self, name, text):
        if self.cut_at is None and (name, text) == ("worker 0", "step 13"):
            self.cut_at = time.monotonic()
            self._set(self._cut)
        if self.cut_at is not None and self.timer is None and "no answer from" in text:
            self.noticed_secs = time.monotonic() - self.cut_at
            self.timer = threading.Timer(2.0, self._set, [self._whole])
            self.timer.start()

    def _set(self, condition):
        for link in self._links:
            link.condition = condition


@pytest.mark.broad
@pytest.mark.timeout(240)
@pytest.mark.parametrize(
    ("fault", "limit_secs"),
    [
        pytest.param({"resets": True}, 60, id="closes"),
        pytest.param(
            {"silent": "both", "loses": True}, 5, id="loses what it gets", marks=pytest.mark.slow
        ),
    ],
)
def test_cut_link_is_noticed_and_training_goes_on(
    train, journal, proxied_plan, through_proxies, network, fault, limit_secs
):
    """A closed link is noticed at once, a silent one after the time limit of a step."""
    plan = proxied_plan(workers=2, ps=0)
    links = plan.between("chief 0", "worker 0")
    reaction = CutLink(links, network.Condition(**fault), network.Condition())
    try:
        assert train([*through_proxies, TRAINER], reaction, limit_secs, plan=plan)
    finally:
        if reaction.timer is not None:
            reaction.timer.join()
    assert reaction.noticed_secs is not None
    assert reaction.noticed_secs < (limit_secs + 40 if "silent" in fault else limit_secs)
    told = named(journal, "chief 0", "worker 0 at ") + named(journal, "worker 0", "chief 0 at ")
    print(f"all-reduce  | cut link {fault}: noticed after {reaction.noticed_secs:.1f} s: {told[0]}")
