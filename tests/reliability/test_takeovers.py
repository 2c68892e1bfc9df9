"""Two jobs want one model directory: the first is stopped, the second starts.

The moments at which the first job is stopped come from a seed; every other one is within a save.
With -s, a line is printed for each takeover.
"""

import os
import random
import signal
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
import tensorflow as tf

JOB = Path(__file__).with_name("job.py").read_text()
LAST = 200
MOMENTS = 12
MOST_SECS = 15


class Stopped(NamedTuple):
    """A job that was stopped.

    Attributes:
      folder: Its model directory.
      job: The process.
      step: The last step that it has printed.
      is_saving: True if it was stopped within a save.
    """

    folder: Path
    job: object
    step: int
    is_saving: bool


@pytest.fixture
def start_job(start_python):
    """Starts jobs, and kills at the end those that still run."""
    jobs = []

    def start(folder, steps=LAST, gate_step=-1):
        jobs.append(start_python(JOB, folder, steps, gate_step))
        return jobs[-1]

    yield start
    for job in jobs:
        if job.returncode is None:
            os.kill(job.pid, signal.SIGKILL)
            job.wait()
        job.close()


def read_step(job):
    """Returns the next step that a job prints, and its time; (0, time) for its beginning."""
    word, *numbers = job.stdout.readline().split()
    return (0, float(numbers[0])) if word == "begin" else (int(numbers[0]), float(numbers[1]))


def read_up_to(job, step):
    """Reads up to a step; returns the seconds between the beginning and the first step."""
    _, begun_at = read_step(job)
    reached, first_at = read_step(job)
    while reached < step:
        reached, _ = read_step(job)
    return first_at - begun_at


def stop_somewhere(start_job, folder, chance, in_save):
    """Starts a job, and stops it some while after some step."""
    folder.mkdir()
    job = start_job(folder)
    step = 0
    for _ in range(chance.randint(2, 30)):
        step, _ = read_step(job)
    spins = chance.randint(0, 400)
    staging = folder / "writer-1.lease" / "saving"
    while in_save and not os.listdir(staging):
        pass
    for _ in range(spins):
        os.path.exists(staging)
    os.kill(job.pid, signal.SIGSTOP)
    wait_for(lambda: Path(f"/proc/{job.pid}/stat").read_text().rpartition(")")[2].split()[0] == "T")
    return Stopped(folder, job, step, (folder / "checkpoint.saving").exists())


def wait_for(condition, seconds=60):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def contents(folder):
    """All files but event files and leases."""
    files = (path for path in folder.iterdir() if path.is_file())
    return {path.name: path.read_bytes() for path in files if not path.name.startswith("events.")}


def variables(folder):
    reader = tf.train.load_checkpoint(str(folder))
    return {name: reader.get_tensor(name) for name in reader.get_variable_to_shape_map()}


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_stopped_job_harms_nothing_when_it_continues(start_job, tmp_path):
    chance = random.Random(MOMENTS)
    stopped = [
        stop_somewhere(start_job, tmp_path / str(moment), chance, in_save=moment % 2 == 1)
        for moment in range(MOMENTS)
    ]
    assert sum(each.is_saving for each in stopped) >= MOMENTS // 4
    successors = [start_job(each.folder, gate_step=each.step + 20) for each in stopped]
    whole = tmp_path / "whole"
    whole.mkdir()
    reference = start_job(whole)
    assert reference.wait(200) == 0
    for each, successor in zip(stopped, successors, strict=True):
        secs = read_up_to(successor, each.step + 20)
        before = contents(each.folder)
        os.kill(each.job.pid, signal.SIGCONT)
        _, told = each.job.communicate(60)
        assert each.job.returncode == 2, told
        (line,) = (line for line in told.splitlines() if "Training stops" in line)
        assert f"process {successor.pid} on host" in line
        assert contents(each.folder) == before
        (each.folder / "go").touch()
        _, told_by_successor = successor.communicate(100)
        assert successor.returncode == 0, told_by_successor
        assert told_by_successor.count("Waiting for model_dir") == 1
        expected = variables(whole)
        found = variables(each.folder)
        assert all(np.array_equal(found[name], expected[name]) for name in expected)
        assert 10 <= secs <= MOST_SECS
        where = "within a save" if each.is_saving else "between saves"
        print(
            f"takeover    | stopped {where} after step {each.step}: first step {secs:.1f} s later"
        )
