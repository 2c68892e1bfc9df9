"""A task that never comes ends the job with an error that names it; a signal lets all save."""

import os
import signal
from pathlib import Path

import pytest
import tensorflow as tf

TRAINER = Path(__file__).with_name("trainer.py")
NEVER = 10**6


@pytest.mark.slow
@pytest.mark.timeout(180)
@pytest.mark.parametrize(
    ("absent", "mode"), [("ps 0", "async"), ("chief 0", "async"), ("worker 0", "lockstep")]
)
def test_task_that_never_comes_is_named(absent, mode, cluster, journal, tmp_path):
    (tmp_path / f"away-{absent.replace(' ', '-')}").touch()
    supervisor = cluster(
        TRAINER,
        mode,
        tmp_path,
        60,
        100,
        evaluator=False,
        grace_secs=5,
        environment={"TIMEOUT_SECS": "5"},
    )
    assert supervisor.run() == 138
    others = {"ps 0", "chief 0", "worker 0"} - {absent}
    said = [text for name in others for text in journal.of(name) if absent in text]
    assert any("127.0.0.1" in text for text in said), "the error has its address"


@pytest.mark.slow
@pytest.mark.timeout(180)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signal_saves_and_ends_everything(number, cluster, journal, tmp_path):
    steps = []

    def stop(name, text):
        if name == "worker 0" and text.startswith("step "):
            steps.append(int(text.split()[1]))
            if len(steps) == 20:
                os.kill(os.getpid(), number)

    journal.react = stop
    supervisor = cluster(TRAINER, "async", tmp_path, NEVER, NEVER, evaluator=False, grace_secs=30)
    assert supervisor.run() == 128 + number
    saved = int(tf.train.load_checkpoint(str(tmp_path)).get_tensor("global_step"))
    assert saved >= steps[19]
    assert "is ended by force" not in " ".join(journal.of("launch"))
