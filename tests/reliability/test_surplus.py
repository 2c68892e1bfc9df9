"""A surplus worker that restarts all the time does not disturb synchronous training.

Two gradients make a step, and three processes send gradients: chief and worker, and a surplus
worker that is killed after each of its first steps. The same model is trained by an Estimator and
by TensorFlow's own MonitoredTrainingSession. With -s, a line is printed for each.
"""

import os
import signal
import time
from itertools import pairwise
from pathlib import Path

import pytest
import tensorflow as tf

from replicate.launch import supervisor as launcher

STEPS = 600
REPLICAS = 2
SURPLUS = "worker 1"
PROGRAMS = {"estimator": "trainer.py", "plain TensorFlow": "plain_sync.py"}


@pytest.fixture
def train(cluster, journal, tmp_path, monkeypatch):
    """Trains with a program; returns steps, dropped gradients, kills, and longest pause."""
    monkeypatch.setattr(launcher, "_MAX_DELAY_SECS", 0.1)
    monkeypatch.setattr(launcher, "_EXIT_SECS", 10.0)

    def run(name):
        folder = tmp_path / name.replace(" ", "-")
        folder.mkdir()
        supervisor = cluster(
            Path(__file__).with_name(PROGRAMS[name]),
            "sync",
            folder,
            STEPS,
            STEPS,
            workers=3,
            evaluator=False,
            restarts=100,
            environment={"REPLICAS": str(REPLICAS)},
        )
        sent, kills, made_at = [0], [0], []

        def look(task, text):
            if not text.startswith("step "):
                return
            sent[0] += 1
            if task == "chief 0":
                made_at.append(time.monotonic())
            pid = supervisor.pid(SURPLUS)
            if task == SURPLUS and pid is not None and len(made_at) and int(text[5:]) < STEPS:
                kills[0] += 1
                os.killpg(pid, signal.SIGKILL)

        journal.react = look
        supervisor.run()
        last = int(tf.train.load_checkpoint(str(folder)).get_tensor("global_step"))
        pause = max(after - before for before, after in pairwise(made_at))
        return last, sent[0] - REPLICAS * last, kills[0], pause

    return run


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_surplus_worker_that_restarts_disturbs_no_more_than_in_tensorflow(train):
    results = {name: train(name) for name in PROGRAMS}
    for name, (steps, dropped, kills, pause) in results.items():
        print(
            f"network     | surplus worker, {name}: {kills} restarts, {steps} steps, {dropped} "
            f"gradients dropped, longest step of the chief {pause:.2f} s"
        )
    steps, dropped, kills, pause = results["estimator"]
    assert steps == STEPS
    assert kills >= 2
    assert pause < 10
    assert dropped <= max(0, results["plain TensorFlow"][1]) + 3 * REPLICAS
