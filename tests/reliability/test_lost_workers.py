"""Workers without parameter servers are killed, stopped or cut off; the others name them and go on.

Every process ends when one is lost, with the exit code after which the launcher starts it again.
"""

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

PROXIED = """
import os, runpy, sys
from replicate.estimator.cluster import meeting
compare = meeting._difference
def without_addresses(arrived, names):
    return compare({rank: {**each, "cluster": None} for rank, each in arrived.items()}, names)
meeting._difference = without_addresses
sys.argv[0] = os.environ["TRAINER"]
sys.path.insert(0, os.path.dirname(sys.argv[0]))
runpy.run_path(sys.argv[0], run_name="__main__")
"""
"""The trainer, in processes that know each other by addresses of proxies: each has other ones."""


class Signals:
    """Sends signals, each at the first line of a task that begins with a word and a number."""

    def __init__(self, *plan):
        """Takes (line, task of the line, victim, signal) in the order of the signals."""
        self.supervisor = None
        self._plan = list(plan)

    def __call__(self, name, text):
        if self._plan and (text, name) == self._plan[0][:2]:
            victim, number = self._plan[0][2:]
            pid = self.supervisor.pid(victim)
            if pid is not None:
                self._plan.pop(0)
                os.killpg(pid, number)

    @property
    def is_done(self):
        return not self._plan


def run(cluster, journal, folder, signals, workers=3, timeout_secs=20):
    supervisor = cluster(
        TRAINER,
        "reduce",
        folder,
        STEPS,
        NEVER,
        workers=workers,
        ps=0,
        evaluator=False,
        restarts=20,
        max_delay_secs=1.0,
        environment={"TIMEOUT_SECS": "60", "STEP_TIMEOUT_SECS": str(timeout_secs)},
    )
    signals.supervisor = supervisor
    journal.react = signals
    assert supervisor.run() == 0


def named(journal, name, lost):
    """The lines in which a process says who is lost."""
    return [text for text in journal.of(name) if "no answer from" in text and lost in text]


@pytest.mark.timeout(240)
def test_killed_workers_are_named_and_training_goes_on(cluster, journal, tmp_path, faulty):
    """Between steps, at its start, while the chief saves, and by a signal that lets it save."""
    signals = Signals(
        ("step 13", "worker 1", "worker 1", signal.SIGKILL),
        ("imported", "worker 0", "worker 0", signal.SIGKILL),
        ("saving 20", "chief 0", "chief 0", signal.SIGKILL),
        ("step 25", "worker 0", "worker 0", signal.SIGTERM),
    )
    run(cluster, journal, tmp_path, signals)
    assert signals.is_done
    assert named(journal, "chief 0", "worker 1 at ")
    assert named(journal, "worker 0", "chief 0 at ")
    assert any("signal has asked worker 0 at" in text for text in journal.of("chief 0"))
    saved = tf.train.load_checkpoint(str(tmp_path))
    faulty.check_weights("sync", saved, STEPS, losses=0)
    codes = [text for text in journal.of("launch") if "has ended with exit code 138" in text]
    assert len(codes) >= 4


@pytest.mark.timeout(240)
def test_a_stopped_worker_is_named_and_comes_back(cluster, journal, tmp_path, faulty):
    class StopAndWake(Signals):
        timer = None

        def __call__(self, name, text):
            super().__call__(name, text)
            if self.timer is None and name == "chief 0" and "no answer from worker 0 at" in text:
                pid = self.supervisor.pid("worker 0")
                self.timer = threading.Timer(1.0, os.killpg, (pid, signal.SIGCONT))
                self.timer.start()

    signals = StopAndWake(("step 13", "worker 0", "worker 0", signal.SIGSTOP))
    run(cluster, journal, tmp_path, signals, workers=2, timeout_secs=3)
    assert signals.timer is not None
    saved = tf.train.load_checkpoint(str(tmp_path))
    faulty.check_weights("sync", saved, STEPS, losses=0)


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


@pytest.mark.timeout(240)
@pytest.mark.parametrize(
    ("fault", "limit_secs"),
    [
        pytest.param({"resets": True}, 60, id="closes"),
        pytest.param({"silent": "both"}, 5, id="stops forwarding", marks=pytest.mark.slow),
        pytest.param(
            {"silent": "both", "loses": True}, 5, id="loses what it gets", marks=pytest.mark.slow
        ),
    ],
)
def test_a_cut_link_is_noticed_and_training_goes_on(
    cluster, journal, proxied_plan, network, tmp_path, faulty, fault, limit_secs
):
    """A closed link is noticed at once, a silent one after the time limit of a step."""
    plan = proxied_plan(workers=2, ps=0)
    links = plan.between("chief 0", "worker 0")
    reaction = CutLink(links, network.Condition(**fault), network.Condition())
    supervisor = cluster(
        "-c",
        PROXIED,
        "reduce",
        tmp_path,
        STEPS,
        NEVER,
        plan=plan,
        restarts=20,
        max_delay_secs=1.0,
        environment={
            "TIMEOUT_SECS": "60",
            "STEP_TIMEOUT_SECS": str(limit_secs),
            "TRAINER": str(TRAINER),
        },
    )
    journal.react = reaction
    try:
        assert supervisor.run() == 0
    finally:
        if reaction.timer is not None:
            reaction.timer.join()
    assert reaction.noticed_secs is not None
    assert reaction.noticed_secs < (limit_secs + 40 if "silent" in fault else limit_secs)
    told = named(journal, "chief 0", "worker 0 at ") + named(journal, "worker 0", "chief 0 at ")
    assert told
    assert any("has ended with exit code 138" in text for text in journal.of("launch"))
    saved = tf.train.load_checkpoint(str(tmp_path))
    faulty.check_weights("sync", saved, STEPS, losses=0)
    print(f"all-reduce  | cut link {fault}: noticed after {reaction.noticed_secs:.1f} s: {told[0]}")
