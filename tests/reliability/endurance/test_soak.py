"""A process that trains, evaluates and exports for hours holds no more than after some minutes.

With -s, a line is printed for each reading. `--minutes=120` makes the run long; by default it takes
some minutes.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from statistics import median

import pytest

PROGRAM = Path(__file__).with_name("soak.py")
SHORT_MINUTES = 6
INTERVALS_OF_A_SHORT_RUN = 36
WARM_UP_SHARE = 1 / 12
"""The share of a run after which nothing may grow: ten minutes of two hours."""

MEMORY_GROWTH = 1.02


def run_soak(folder, secs, interval):
    """Returns the readings of a run, oldest first."""
    command = [sys.executable, str(PROGRAM), str(folder), str(secs), str(interval)]
    readings = []
    environment = {**os.environ, "PYTHONPATH": str(PROGRAM.parents[3])}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        for line in process.stdout:
            print(f"soak        | {line}", end="")
            readings.append(json.loads(line))
    assert process.returncode == 0
    return readings


@pytest.mark.slow
@pytest.mark.timeout(4 * 3600)
def test_long_runs_hold_no_more_than_short_ones(tmp_path, request):
    minutes = request.config.getoption("--minutes") or SHORT_MINUTES
    interval = min(60.0, minutes * 60 / INTERVALS_OF_A_SHORT_RUN)
    readings = run_soak(tmp_path / "run", minutes * 60, interval)
    warm = [entry for entry in readings if entry["seconds"] >= minutes * 60 * WARM_UP_SHARE]
    third = len(warm) // 3
    begin, end = warm[:third], warm[-third:]
    for held in ("memory", "descriptors", "threads", "files"):
        first, last = (median(entry[held] for entry in part) for part in (begin, end))
        print(f"soak        | {held}: {first:,.0f} at first, {last:,.0f} at the end")
    memory = [median(entry["memory"] for entry in part) for part in (begin, end)]
    assert memory[1] <= memory[0] * MEMORY_GROWTH
    for held in ("descriptors", "threads", "files"):
        assert max(e[held] for e in end) <= max(e[held] for e in begin)
