"""Workers without parameter servers are killed or stopped; the others name them and go on.

Every process ends when one is lost, with the exit code after which the launcher starts it again.
"""

import os
import signal
import threading
from pathlib import Path

import pytest
import tensorflow as tf

TRAINER = Path(__file__).with_name("trainer.py")
STEPS, SAVE_STEPS = 30, 10
NEVER = 10**6
"""Steps of a phase that does not end."""


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
