"""The tests that are marked `gpu`, run by pytest."""

import re
import subprocess
import sys

from benchmarks import harness
from benchmarks.gpu_check.machine import Devices
from benchmarks.gpu_check.outcome import Outcome, Table, judge

_COUNT = re.compile(r"(\d+) (passed|failed|skipped|errors?)\b")


def run(devices: Devices) -> Outcome:
    """Runs them in one process, on all GPUs that it sees. Their output goes to the log."""
    del devices
    tests = sorted((harness.ROOT / "tests").rglob("test_*.py"))
    files = [str(file) for file in tests if "mark.gpu" in file.read_text()]
    command = [sys.executable, "-m", "pytest", "-n0", "-q", "-m", "gpu and not slow", *files]
    done = subprocess.run(  # noqa: S603  # the tests are those of this project
        command, cwd=harness.ROOT, capture_output=True, text=True, check=False
    )
    print(done.stdout, done.stderr, file=sys.stderr)
    *_, last = "", *done.stdout.strip().splitlines()
    counts = {kind: int(count) for count, kind in _COUNT.findall(last)}
    if not counts:
        return judge(False, f"pytest ended with code {done.returncode} and no count of tests")
    table = Table("Tests", tuple(counts), [tuple(counts.values())])
    is_ok = done.returncode == 0 and counts.get("passed", 0) > 0 and not counts.get("skipped")
    return judge(is_ok, ", ".join(f"{count} {kind}" for kind, count in counts.items()), table)
