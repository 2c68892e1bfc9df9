import functools
import signal
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import tensorflow as tf
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from replicate.estimator import TrainingInterrupted, evaluation_rounds
from replicate.estimator.cluster.servers import WaitCancelled
from replicate.estimator.cluster_config import ClusterConfig
from replicate.estimator.end_marker import announce_end, has_ended
from replicate.estimator.train_and_evaluate import train_and_evaluate
from replicate.estimator.train_specs import EvalSpec, TrainSpec
from replicate.launch.plan import free_ports

v1 = tf.compat.v1


class Exporter:
    """Notes the steps that it is told, with whether it is the final one."""

    name = "noted"

    def __init__(self):
        self.told = []

    def export(self, estimator, export_path, checkpoint_path, eval_result, is_the_final_export):
        self.told.append((eval_result["global_step"], is_the_final_export))
        return "exported"


def eval_spec(linear, exporter=(), **settings):
    settings = {"steps": None, "throttle_secs": 0, "start_delay_secs": 0, **settings}
    return EvalSpec(linear.once_input_fn, exporters=exporter, **settings)


class Listener(v1.train.CheckpointSaverListener):
    """Counts the saves."""

    saves = 0

    def after_save(self, session, global_step_value):
        self.saves += 1


def test_trains_evaluates_on_the_way_and_exports_at_the_end(linear, tmp_path):
    killed = tmp_path / "export" / "noted" / "temp-1700000000"
    (killed / "variables").mkdir(parents=True)
    estimator = linear.make_estimator(tmp_path)
    exporter, listener, steps = Exporter(), Listener(), []
    train_spec = TrainSpec(
        linear.input_fn, 12, [linear.CallHook(steps.append)], saving_listeners=[listener]
    )
    results, exports = train_and_evaluate(estimator, train_spec, eval_spec(linear, exporter))
    weights, bias = linear.trained(12)
    expected = np.mean(np.abs(linear.X @ weights + bias - linear.Y))
    assert results["mae"] == pytest.approx(expected, rel=1e-4)
    assert (results["global_step"], exports) == (12, ["exported"])
    assert exporter.told == [(5, False), (10, False), (12, True)]
    events = EventAccumulator(f"{tmp_path}/eval").Reload()
    assert [event.step for event in events.Scalars("mae")] == [5, 10, 12]
    assert (steps, listener.saves) == (list(range(1, 13)), 4)
    assert not killed.exists(), "files of a killed export are removed"
    train_and_evaluate(estimator, train_spec, eval_spec(linear, exporter))
    assert exporter.told[3:] == [(12, True)], "complete training is evaluated once more"


def test_session_master_without_a_cluster_trains_and_evaluates_in_one_process(
    linear, roles, tmp_path
):
    cluster = ClusterConfig(session_master=roles["chief", 0].master)
    exporter = Exporter()
    train_and_evaluate(
        linear.make_estimator(tmp_path, cluster=cluster),
        TrainSpec(linear.input_fn, max_steps=7),
        eval_spec(linear, exporter, throttle_secs=600),
    )
    assert exporter.told == [(7, True)], "the throttle leaves the final round only"


def test_worker_is_delayed_after_its_server_has_started(linear, tmp_path, monkeypatch):
    calls = []
    module = sys.modules[train_and_evaluate.__module__]
    monkeypatch.setattr(module, "start_server", lambda config: calls.append("server"))
    monkeypatch.setattr(module, "delay_worker", lambda config, should_cancel: calls.append("delay"))

    def wait(config, should_cancel):
        calls.append("wait")
        raise WaitCancelled

    monkeypatch.setattr(module, "wait_for_parameter_servers", wait)
    jobs = {"chief": ("a:1",), "worker": ("a:2",)}
    worker = linear.make_estimator(tmp_path, cluster=ClusterConfig(jobs, "worker"))
    train_and_evaluate(worker, TrainSpec(linear.input_fn, max_steps=2), eval_spec(linear))
    assert calls == ["server", "delay", "wait"]


def evaluator(linear, tmp_path):
    return linear.make_estimator(
        tmp_path, cluster=ClusterConfig({"chief": ("a:1",)}, "evaluator", 0)
    )


def test_second_evaluator_is_refused(linear, tmp_path):
    second = ClusterConfig({"chief": ("a:1",)}, "evaluator", 1)
    estimator = linear.make_estimator(tmp_path, cluster=second)
    with pytest.raises(ValueError, match="this process is evaluator 1, and there can be one"):
        train_and_evaluate(estimator, TrainSpec(linear.input_fn, 1), eval_spec(linear))


def test_chief_without_workers_trains_and_its_evaluator_ends_with_it(linear, tmp_path, monkeypatch):
    monkeypatch.setattr(evaluation_rounds, "POLL_SECS", 0.05)

    class Stop(v1.train.SessionRunHook):
        def after_run(self, run_context, run_values):
            if run_context.session.run(v1.train.get_global_step()) == 7:
                run_context.request_stop()

    exporter, unused = Exporter(), Exporter()
    waiting = threading.Thread(
        target=train_and_evaluate,
        args=(
            evaluator(linear, tmp_path),
            TrainSpec(linear.input_fn),
            eval_spec(linear, exporter, throttle_secs=1000),
        ),
    )
    waiting.start()
    chief = linear.make_estimator(tmp_path, cluster=ClusterConfig({"chief": ("a:1",)}, "chief", 0))
    train_spec = TrainSpec(linear.input_fn, hooks=[Stop()])
    assert train_and_evaluate(chief, train_spec, eval_spec(linear, unused)) == (None, [])
    waiting.join(timeout=60)
    assert not waiting.is_alive()
    assert unused.told == []
    assert exporter.told[-1] == (7, True)
    assert all(not is_final for _, is_final in exporter.told[:-1])


def test_training_that_was_interrupted_has_not_ended_and_makes_no_final_round(linear, tmp_path):
    train_spec = TrainSpec(linear.input_fn, max_steps=3)
    train_and_evaluate(linear.make_estimator(tmp_path), train_spec, eval_spec(linear))
    assert has_ended(str(tmp_path))
    send = linear.CallHook(lambda step: signal.raise_signal(signal.SIGTERM))
    train_spec, exporter = TrainSpec(linear.input_fn, hooks=[send]), Exporter()
    with pytest.raises(TrainingInterrupted):
        train_and_evaluate(linear.make_estimator(tmp_path), train_spec, eval_spec(linear, exporter))
    assert not has_ended(str(tmp_path))
    assert exporter.told == []


@pytest.mark.parametrize("name", ["estimator", "train_spec", "eval_spec"])
def test_arguments_of_the_wrong_class(linear, tmp_path, name):
    arguments = {
        "estimator": linear.make_estimator(tmp_path),
        "train_spec": TrainSpec(linear.input_fn),
        "eval_spec": EvalSpec(linear.input_fn),
    }
    with pytest.raises(TypeError, match=f"train_and_evaluate: {name} must be"):
        train_and_evaluate(**{**arguments, name: "wrong"})


# In a cluster


def test_cluster_trains_and_is_evaluated(linear, tmp_path, monkeypatch):
    """The tasks are threads here: each has its own graph, session and server."""
    monkeypatch.setattr(evaluation_rounds, "POLL_SECS", 0.05)
    roles = ("chief", "worker", "ps")
    jobs = {role: (f"127.0.0.1:{port}",) for role, port in zip(roles, free_ports(3), strict=True)}
    told = {role: [] for role in roles}
    worker_has_joined = threading.Event()

    def note(role, step):
        told[role].append(step)
        if role == "worker":
            worker_has_joined.set()
        assert worker_has_joined.wait(60)

    def take_part(role):
        noted = linear.CallHook(functools.partial(note, role))
        train_and_evaluate(
            linear.make_estimator(
                tmp_path,
                cluster=ClusterConfig(jobs, role, 0),
                save_checkpoints_steps=40,
                params={"rate": 0.005},
            ),
            TrainSpec(linear.input_fn, max_steps=100, hooks=[noted]),
            eval_spec(linear),
        )

    exporter = Exporter()
    with ThreadPoolExecutor(len(roles)) as tasks:
        ends = [tasks.submit(take_part, role) for role in roles]
        results, _ = train_and_evaluate(
            evaluator(linear, tmp_path),
            TrainSpec(linear.input_fn, max_steps=100),
            eval_spec(linear, exporter),
        )
        for end in ends:
            end.result(timeout=60)
    assert told["ps"] == []
    assert min(len(told["chief"]), len(told["worker"])) > 1
    last = int(linear.make_estimator(tmp_path).get_variable_value("global_step"))
    assert last in (100, 101), "the worker may be one step ahead when the chief stops"
    assert exporter.told[-1] == (last, True)
    assert results["mae"] < 0.3, "the model has learnt"


@pytest.fixture
def lonely_worker(linear, tmp_path):
    """A worker of a cluster whose other tasks are not there."""
    chief, own, ps = (f"127.0.0.1:{port}" for port in free_ports(3))
    cluster = ClusterConfig({"chief": (chief,), "worker": (own,), "ps": (ps,)}, "worker", 0)
    return linear.make_estimator(tmp_path, cluster=cluster, session_creation_timeout_secs=60)


def test_worker_that_comes_when_all_is_done_has_nothing_to_do(linear, lonely_worker, tmp_path):
    linear.make_estimator(tmp_path).train(linear.input_fn, max_steps=6)
    train_spec = TrainSpec(linear.input_fn, max_steps=6)
    assert train_and_evaluate(lonely_worker, train_spec, eval_spec(linear)) == (None, [])


def test_worker_that_waits_for_a_server_when_training_ends_returns(linear, lonely_worker, tmp_path):
    assert not lonely_worker.ending.is_new()
    announce_end(str(tmp_path))
    train_spec = TrainSpec(linear.input_fn)
    assert train_and_evaluate(lonely_worker, train_spec, eval_spec(linear)) == (None, [])
