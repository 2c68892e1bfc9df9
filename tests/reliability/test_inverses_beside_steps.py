"""Two workers whose K-FAC inverts beside the steps, as real processes, one of which is killed."""

import os
import signal
from pathlib import Path

import numpy as np
import pytest

PROGRAM = Path(__file__).with_name("kfac_trainer.py")


@pytest.mark.slow
@pytest.mark.timeout(240)
@pytest.mark.parametrize("kill_at", [None, "step 17"])
def test_a_run_that_was_killed_while_a_thread_inverted_makes_the_steps_of_one_process(
    cluster, journal, tmp_path, program, kill_at
):
    """The checkpoint of step 15 has the averages of step 12, whose inverses are used at 16."""
    supervisor = cluster(
        PROGRAM,
        tmp_path / "many",
        workers=2,
        ps=0,
        evaluator=False,
        restarts=6,
        max_delay_secs=1.0,
        forks=True,
    )
    killed = []

    def kill(name, text):
        if not killed and (name, text) == ("worker 0", kill_at):
            killed.append(name)
            os.killpg(supervisor.pid(name), signal.SIGKILL)

    journal.react = kill
    assert supervisor.run() == 0
    assert bool(killed) == (kill_at is not None)
    lines = {name: journal.of(name) for name in ("chief 0", "worker 0")}
    starts = [text for text in lines["chief 0"] if text == "imported"]
    assert len(starts) == 1 + len(killed)
    found = [lines[name][-1].split() for name in lines]
    assert found[0] == found[1]
    assert found[0][0] == "weights"
    expected = program("kfac_trainer").train(str(tmp_path / "one"))
    np.testing.assert_allclose(np.array(found[0][1:], float), expected, rtol=1e-9)
