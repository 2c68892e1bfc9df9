"""Those who train asynchronously do not wait for a worker or an evaluator that was lost.

The lost one stays away until the chief has made a good many steps without it: if the chief waited
for it, the test would not end. How long the chief's longest step was meanwhile, and how fast its
steps were before and without the lost one, is measured: with -s, a line is printed for each loss.
"""

import os
import signal
from itertools import pairwise
from pathlib import Path

import pytest
import tensorflow as tf

TRAINER = Path(__file__).with_name("trainer.py")
STEPS = 200
"""Steps of the chief that are timed with the task that is going to be lost, and without it."""


class Loss:
    """Kills a task, keeps it away for a while, and looks at the steps of the chief."""

    def __init__(self, task, sign, supervisor, folder):
        """Takes who is lost, and with which word the lines begin that it prints at its work."""
        self.is_over = False
        self._task = task
        self._sign = sign
        self._supervisor = supervisor
        self._away = folder / f"away-{task.replace(' ', '-')}"
        self._is_there = False
        self._with, self._without, self._until_back = [], [], []
        self._times = self._with

    def look(self, time, name, text):
        """Takes in a line."""
        if name == self._task and text.startswith(self._sign):
            self._is_there = True
            self.is_over = self._times is self._until_back
        elif name == "chief 0" and text.startswith("step ") and self._is_there:
            self._times.append(time)
            if len(self._times) > STEPS:
                self._go_on(time)

    def _go_on(self, time):
        """Enough steps were made as it was: loses the task, or lets it come back."""
        if self._times is self._with:
            self._away.touch()
            os.killpg(self._supervisor.pid(self._task), signal.SIGKILL)
            self._times = self._without
            self._times.append(time)
        elif self._times is self._without:
            self._away.unlink()
            self._times = self._until_back
            self._times.append(time)

    def __str__(self):
        parts = (self._with, self._without, self._until_back)
        rates = [STEPS / (times[STEPS] - times[0]) for times in parts[:2]]
        longest = [max(later - sooner for sooner, later in pairwise(times)) for times in parts]
        return (
            f"pause       | {self._task:<11} lost: {rates[0]:.1f} step/s with it, {rates[1]:.1f} "
            f"without; longest step of the chief {longest[0]:.2f} s with it, {longest[1]:.2f} s "
            f"without, {longest[2]:.2f} s until it was back"
        )


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_nobody_waits_for_a_lost_worker_or_evaluator(cluster, journal, tmp_path):
    supervisor = cluster(TRAINER, "async", tmp_path, 10**6, 10**6, evaluator=True, restarts=2)
    left = [
        Loss("worker 0", "step ", supervisor, tmp_path),
        Loss("evaluator 0", "evaluated ", supervisor, tmp_path),
    ]

    def look(name, text):
        if left:
            left[0].look(journal.entries[-1][0], name, text)
            if left[0].is_over:
                print(left.pop(0))
        if not left:
            (tmp_path / "end").touch()

    journal.react = look
    assert supervisor.run() == 0
    assert not left
    steps = [int(text.split()[1]) for text in journal.of("chief 0") if text.startswith("step ")]
    assert steps == sorted(steps), "the chief never goes back"
    last = int(tf.train.load_checkpoint(str(tmp_path)).get_tensor("global_step"))
    assert journal.of("evaluator 0")[-1] == f"evaluated {last}"
