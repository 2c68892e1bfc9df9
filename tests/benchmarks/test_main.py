import importlib
import subprocess
from pathlib import Path

import pytest

main = importlib.import_module("benchmarks.__main__")

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("name", main.PLANS)
def test_benchmarks_accept_their_planned_options(name, tmp_path):
    arguments = main.command(main.PLANS[name], name, tmp_path, "python3.11")
    done = subprocess.run(
        [*arguments, "--only_check_args"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


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
