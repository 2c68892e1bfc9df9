"""Workers that evaluate together, as real processes: equal results on all, also after a kill."""

import json
import os
import signal
from pathlib import Path

import pytest

PROGRAM = Path(__file__).with_name("evaluator_less.py")
STEPS = 40


def results_of(journal, name):
    lines = [text for text in journal.of(name) if text.startswith("results ")]
    return json.loads(lines[-1].removeprefix("results "))


@pytest.mark.timeout(240)
@pytest.mark.parametrize("kills", [False, True])
def test_two_workers_find_what_one_finds(cluster, journal, tmp_path, program, kills):
    """11 batches, the last of them of 3 rows: one worker takes 6, the other one 5."""
    supervisor = cluster(
        PROGRAM, tmp_path, STEPS, workers=2, ps=0, evaluator=False, restarts=6, max_delay_secs=1.0
    )
    killed = []

    def kill(name, text):
        if kills and not killed and (name, text) == ("worker 0", "evaluating 20"):
            killed.append(name)
            os.killpg(supervisor.pid(name), signal.SIGKILL)

    journal.react = kill
    assert supervisor.run() == 0
    assert killed == ["worker 0"] * kills
    found = results_of(journal, "chief 0")
    assert results_of(journal, "worker 0") == found
    alone = program("evaluator_less").make_estimator(str(tmp_path))
    expected = alone.evaluate(program("evaluator_less").batches)
    assert found == pytest.approx(expected, rel=0, abs=1e-6)
    assert found["global_step"] == STEPS
    rounds = [text for text in journal.of("worker 0") if text.startswith("evaluating ")]
    assert rounds[-1] == f"evaluating {STEPS}"
    assert len(rounds) >= 3
    written = [
        json.loads(line) for line in (tmp_path / "eval" / "metrics.jsonl").read_text().splitlines()
    ]
    steps = [each["step"] for each in written if each.get("evaluation") == "eval"]
    assert steps == sorted(steps)
    assert steps[-1] == STEPS
