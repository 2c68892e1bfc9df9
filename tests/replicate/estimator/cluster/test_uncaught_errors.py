"""A task of a cluster that ends by an error that nobody catches has the error's exit code."""

import json
import sys

import pytest

import replicate
from replicate.estimator.cluster_config import ClusterConfig
from replicate.launch.plan import free_ports

PROGRAM = """
import atexit
import sys
import tensorflow.compat.v1 as tf
import replicate

def model_fn(features, mode):
    weight = tf.get_variable("weight", [])
    train_op = tf.train.GradientDescentOptimizer(0.1).minimize(weight, tf.train.get_global_step())
    return replicate.EstimatorSpec(mode, loss=weight, train_op=train_op)

def input_fn():
    return tf.data.Dataset.from_tensors([0.0]).repeat()

atexit.register(print, "the last words")
sys.excepthook = lambda kind, error, trace: print(kind.__name__, error, file=sys.stderr)
reduces = sys.argv[1] != "servers"
config = replicate.RunConfig(
    "model", session_creation_timeout_secs=0.2, progress="off",
    train_distribute=replicate.AllReduce(evaluates=True) if reduces else None)
estimator = replicate.Estimator(model_fn, config=config)
calls = {
    "train": lambda: estimator.train(input_fn, steps=1),
    "evaluate": lambda: estimator.evaluate(input_fn, steps=1),
    "servers": lambda: replicate.train_and_evaluate(
        estimator=estimator, train_spec=replicate.TrainSpec(input_fn, max_steps=1),
        eval_spec=replicate.EvalSpec(input_fn)),
    "bug": lambda: estimator.train(None, steps=1),
}
calls["app"] = lambda: tf.app.run(lambda _: calls["train"](), ["program"])
calls[sys.argv[1]]()
"""
RUNNER = "import runpy; runpy.run_module('replicate.{}', None, '__main__', True)"


def environment(task="worker", **jobs):
    ports = iter(free_ports(3))
    names = ("chief", "worker", *jobs)
    cluster = {name: [f"127.0.0.1:{next(ports)}"] for name in names}
    return {"TF_CONFIG": json.dumps({"cluster": cluster, "task": {"type": task, "index": 0}})}


@pytest.mark.parametrize(
    ("runner", "call", "task", "code"),
    [
        ("", "train", "chief", 138),
        ("run", "train", "chief", 138),
        ("compat", "app", "chief", 138),
        ("", "evaluate", "chief", 138),
        ("", "servers", "worker", 138),
        ("run", "servers", "ps", 138),
        ("", "bug", "worker", 1),
    ],
)
def test_task_ends_with_the_code_of_its_error(run_python, tmp_path, runner, call, task, code):
    (tmp_path / "program.py").write_text(PROGRAM)
    (tmp_path / "model").mkdir()
    start = RUNNER.format(runner) if runner else PROGRAM
    words = ["program.py", call] if runner else [call]
    servers = {"ps": 1} if call == "servers" else {}
    done = run_python(
        start, *words, folder=tmp_path, environment=environment(task, **servers), quick=True
    )
    assert done.code == code, done.err
    assert "the last words" in done.out
    assert done.err.count("ClusterError") == (code == 138)


def raise_in(role, error, folder):
    """Raises an error as from a training call of a task with a role."""

    class Failing(replicate.Estimator):
        def _train(self, input_fn, run):
            raise error

    config = replicate.RunConfig(str(folder), cluster=role, progress="off")
    Failing(lambda features, mode: None, config=config).train(lambda: None, steps=1)


@pytest.fixture
def shown(monkeypatch):
    """Errors that the hook of the program shows."""
    errors = []
    monkeypatch.setattr(sys, "excepthook", lambda kind, error, trace: errors.append(error))
    return errors


CHIEF = ClusterConfig({"chief": ("127.0.0.1:1",)}, "chief", 0)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (replicate.ClusterError("lost"), 138),
        (replicate.WorkersDifferError("other"), 2),
        (replicate.CheckpointError("damaged"), 2),
        (replicate.NonFiniteError("nan"), 3),
    ],
)
def test_hook_shows_an_error_once_and_ends_with_its_code(shown, monkeypatch, tmp_path, error, code):
    for _ in range(2):
        with pytest.raises(type(error)):
            raise_in(CHIEF, error, tmp_path)
    with pytest.raises(SystemExit) as end:
        sys.excepthook(type(error), error, None)
    assert (end.value.code, shown) == (code, [error])
    sys.excepthook(ValueError, ValueError("another"), None)
    assert len(shown) == 2
    monkeypatch.setattr(sys, "ps1", ">>> ", raising=False)
    sys.excepthook(type(error), error, None)
    assert len(shown) == 3


def test_hook_stays_in_a_process_on_its_own_and_without_an_error_of_ours(shown, tmp_path):
    before = sys.excepthook
    for role, error in ((ClusterConfig(), replicate.ClusterError("lost")), (CHIEF, ValueError())):
        with pytest.raises(type(error)):
            raise_in(role, error, tmp_path)
        assert sys.excepthook is before
