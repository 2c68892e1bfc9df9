"""Small programs as the tasks of a cluster, and a display that keeps what they print."""

import os
import signal
import sys
import time

import pytest

from replicate.launch import Supervisor, cluster_plan

PROLOGUE = """
import json, os, signal, sys, time
task = json.loads(os.environ["TF_CONFIG"])["task"]
job, index = task["type"], task["index"]
def say(*words):
    os.write(1, f"{' '.join(map(str, words))}\\n".encode())
"""


class Recorder:
    """A display that keeps lines and bars, and calls a function with every line."""

    def __init__(self):
        self.lines = []
        self.bars = []
        self.react = lambda name, text: None

    def line(self, name, text, is_error=False):
        self.lines.append((name, text, is_error))
        self.react(name, text)

    def bar(self, name, text):
        self.bars.append((name, text))

    def of(self, name):
        return [text for who, text, _ in self.lines if who == name]


@pytest.fixture
def recorder():
    return Recorder()


@pytest.fixture
def supervise(recorder):
    """Makes a supervisor, with short pauses, whose tasks all run one program, given as text."""

    def make(program, *, workers=2, ps=0, chief=False, evaluator=False, **settings):
        plan = cluster_plan(workers, ps, chief=chief, evaluator=evaluator)
        command = [sys.executable, "-I", "-c", PROLOGUE + program]
        return Supervisor(plan, command, recorder, **{"max_delay_secs": 0.05, **settings})

    return make


@pytest.fixture
def is_alive():
    """Returns True if a process runs; a zombie does not."""

    def look(pid):
        try:
            with open(f"/proc/{pid}/stat") as file:
                return file.read().rpartition(")")[2].split()[0] != "Z"
        except FileNotFoundError:
            return False

    return look


@pytest.fixture
def wait_until():
    """Waits for a condition, for a limited time."""

    def wait(condition, seconds=20):
        deadline = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < deadline, "it has not come true in time"
            time.sleep(0.02)

    return wait


@pytest.fixture
def end_later():
    """Kills processes when the test is over, even if it failed."""
    pids = []
    yield pids.append
    for pid in pids:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue
