import importlib
import subprocess
import sys
import time
from pathlib import Path

import pytest

main = importlib.import_module("benchmarks.__main__")

ROOT = Path(__file__).resolve().parents[2]


def program(*lines):
    return [sys.executable, "-c", "\n".join(lines)]


@pytest.mark.parametrize("name", main.PLANS)
def test_benchmarks_accept_their_planned_options(name, tmp_path):
    arguments = main.command(main.PLANS[name], name, tmp_path, "python3.11")
    done = subprocess.run(
        [*arguments, "--only_check_args"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_run_reports_failure_and_keeps_log(tmp_path):
    log = tmp_path / "said.log"
    assert main.run(program("pass"), log, 60) == ""
    failing = program("import sys", "print('why', file=sys.stderr)", "sys.exit(3)")
    trouble = main.run(failing, log, 60)
    assert trouble == f"exit code 3; see {log}"
    assert log.read_text() == "why\n"


def test_run_ends_slow_program_and_its_children(tmp_path):
    told = tmp_path / "child"
    endless = program(
        "import pathlib, subprocess, sys, time",
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(100)'])",
        f"pathlib.Path({str(told)!r}).write_text(str(child.pid))",
        "time.sleep(100)",
    )
    started = time.monotonic()
    assert "stopped after 3 s" in main.run(endless, tmp_path / "log", 3)
    assert time.monotonic() - started < 30
    deadline = time.monotonic() + 30
    while _runs(int(told.read_text())):  # A process that is killed takes its time to end.
        assert time.monotonic() < deadline
        time.sleep(0.01)


def _runs(pid):
    """Returns True if a process runs. A zombie counts as ended."""
    status = Path(f"/proc/{pid}/stat")
    return status.exists() and status.read_text().rpartition(")")[2].split()[0] != "Z"


def test_failed_benchmark_does_not_stop_others(tmp_path, monkeypatch, capfd):
    plans = {"absent": main.Plan("no_such_module", 1), "old": main.Plan("x", 1, on_tf215=True)}
    monkeypatch.setattr(main, "PLANS", plans)
    outcomes = main.run_all(list(plans), tmp_path, str(tmp_path / "python"))
    assert outcomes["absent"].trouble.startswith("exit code 1")
    assert "no_such_module" in (tmp_path / "absent.log").read_text()
    assert "make .venv-tf215" in outcomes["old"].trouble
    printed = capfd.readouterr().out
    assert "== absent" in printed
    assert "== old" in printed
    *_, total = main.lines({"a": main.Outcome(20.0, ""), "b": main.Outcome(1.0, "stopped")})
    assert total.split() == ["21", "s"]
