"""A task that never comes, or dies at each start, ends the job with an error that names it."""

import os
import signal
from pathlib import Path

import pytest
import tensorflow as tf

TRAINER = Path(__file__).with_name("trainer.py")
LIMIT_SECS = 5
WITHOUT = """
import json, os, runpy, sys, time
task = json.loads(os.environ["TF_CONFIG"])["task"]
if f"{task['type']} {task['index']}" == os.environ["ABSENT"]:
    if os.environ["HOW"] == "dies":
        os.kill(os.getpid(), 9)
    time.sleep(600)
sys.argv[0] = os.environ["TRAINER"]
sys.path.insert(0, os.path.dirname(sys.argv[0]))
runpy.run_path(sys.argv[0], run_name="__main__")
"""


@pytest.fixture
def cluster_without(cluster, tmp_path):
    """Makes a cluster one task of which is absent."""

    def make(absent, mode, how, **settings):
        return cluster(
            "-c",
            WITHOUT,
            mode,
            tmp_path,
            60,
            100,
            evaluator=False,
            environment={
                "ABSENT": absent,
                "HOW": how,
                "TRAINER": str(TRAINER),
                "TIMEOUT_SECS": str(LIMIT_SECS),
            },
            **settings,
        )

    return make


@pytest.mark.slow
@pytest.mark.timeout(180)
@pytest.mark.parametrize(
    ("absent", "mode"),
    [
        ("ps 0", "async"),
        ("chief 0", "async"),
        ("worker 0", "lockstep"),
    ],
)
def test_a_task_that_never_comes_is_named(absent, mode, cluster_without, journal):
    assert cluster_without(absent, mode, "waits", grace_secs=5).run() == 138
    others = {"ps 0", "chief 0", "worker 0"} - {absent}
    said = [text for name in others for text in journal.of(name) if absent in text]
    assert any("127.0.0.1" in text for text in said), "the error has its address"


@pytest.mark.slow
@pytest.mark.timeout(180)
def test_a_crash_loop_ends(cluster_without, journal):
    supervisor = cluster_without(
        "ps 0", "async", "dies", restarts=3, grace_secs=5, max_delay_secs=0.1
    )
    code = supervisor.run()
    assert code == 128 + signal.SIGKILL
    ended = [text for text in journal.of("launch") if text.startswith("ps 0 has ended")]
    assert len(ended) == 4
    assert "has no restart left" in ended[-1]


@pytest.mark.slow
@pytest.mark.timeout(180)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_saves_and_ends_everything(number, cluster, journal, tmp_path):
    supervisor = cluster(
        TRAINER, "async", tmp_path, 100_000, 1_000_000, evaluator=False, grace_secs=30
    )

    steps = []

    def stop(name, text):
        if name == "worker 0" and text.startswith("step "):
            steps.append(int(text.split()[1]))
            if len(steps) == 20:
                os.kill(os.getpid(), number)

    journal.react = stop
    assert supervisor.run() == 128 + number
    saved = int(tf.train.load_checkpoint(str(tmp_path)).get_tensor("global_step"))
    assert saved >= steps[19]
    assert "is ended by force" not in " ".join(journal.of("launch"))
