"""Rounds of training and evaluation, and the specs that ask for them."""

import functools
import shutil
import signal
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import numpy as np
import pytest
import tensorflow as tf
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from replicate.errors import CheckpointError
from replicate.estimator import TrainingInterrupted, evaluation_rounds
from replicate.estimator.cluster.servers import WaitCancelled
from replicate.estimator.cluster_config import ClusterConfig
from replicate.estimator.end_marker import announce_end, has_ended
from replicate.estimator.evaluation_rounds import EvaluationRounds, follow_checkpoints
from replicate.estimator.train_and_evaluate import train_and_evaluate
from replicate.estimator.train_specs import EvalSpec, TrainSpec, checked_listeners
from replicate.launch.plan import free_ports

v1 = tf.compat.v1


class Exporter:
    """Notes the steps that it is told, with whether it is the final one."""

    name = "noted"

    def __init__(self):
        self.told = []

    def export(self, estimator, export_path, checkpoint_path, eval_result, is_the_final_export):
        assert export_path == f"{estimator.model_dir}/export/noted"
        self.checkpoint = checkpoint_path
        self.told.append((eval_result["global_step"], is_the_final_export))
        return eval_result["global_step"]


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
    assert (results["global_step"], exports) == (12, [12])
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


@pytest.mark.parametrize("max_steps", [6, None], ids=["steps are made", "training has ended"])
def test_worker_that_comes_too_late_has_nothing_to_do(linear, tmp_path, max_steps):
    chief, own, ps = (f"127.0.0.1:{port}" for port in free_ports(3))
    cluster = ClusterConfig({"chief": (chief,), "worker": (own,), "ps": (ps,)}, "worker", 0)
    worker = linear.make_estimator(tmp_path, cluster=cluster, session_creation_timeout_secs=60)
    if max_steps:
        linear.make_estimator(tmp_path).train(linear.input_fn, max_steps=max_steps)
    else:
        assert not worker.ending.is_new()
        announce_end(str(tmp_path))
    train_spec = TrainSpec(linear.input_fn, max_steps=max_steps)
    assert train_and_evaluate(worker, train_spec, eval_spec(linear)) == (None, [])


@pytest.fixture(scope="module")
def trained_dir(linear, tmp_path_factory):
    path = tmp_path_factory.mktemp("trained")
    linear.make_estimator(path).train(linear.input_fn, max_steps=6)
    return path


@pytest.fixture
def trained(linear, trained_dir, tmp_path):
    """An Estimator trained for 6 steps, whose directory is the test's own."""
    shutil.copytree(trained_dir, tmp_path, dirs_exist_ok=True)
    return linear.make_estimator(tmp_path)


def note_evaluations(estimator, note):
    """Calls a function before each evaluation."""
    evaluate = estimator.evaluate
    estimator.evaluate = lambda *args, **kwargs: note() or evaluate(*args, **kwargs)


def test_a_round_evaluates_a_checkpoint_once_and_exports_it(linear, trained, tmp_path):
    exporter, calls = Exporter(), []
    note_evaluations(trained, lambda: calls.append(1))
    rounds = EvaluationRounds(trained, eval_spec(linear, exporter, name="held_out"))
    rounds.run(f"{tmp_path}/model.ckpt-5")
    rounds.run(f"{tmp_path}/model.ckpt-5", is_final=True)
    rounds.run(f"{tmp_path}/model.ckpt-6")
    assert exporter.told == [(5, False), (5, True), (6, False)]
    assert exporter.checkpoint == f"{tmp_path}/model.ckpt-6"
    assert (rounds.results["global_step"], rounds.exports) == (6, [6])
    assert len(calls) == 2
    assert list((tmp_path / "eval_held_out").iterdir())


def waiting(linear, tmp_path, monkeypatch, clock, max_steps=None):
    """Evaluates until the end with a delay of 120 seconds; returns the time at the first round."""
    estimator = linear.make_estimator(tmp_path)
    monkeypatch.setattr(evaluation_rounds, "time", clock)
    exporter, begun = Exporter(), []
    settings = eval_spec(linear, exporter, start_delay_secs=120)
    note_evaluations(estimator, lambda: begun.append(clock.now))
    follow_checkpoints(EvaluationRounds(estimator, settings), estimator, max_steps, settings)
    assert exporter.told[-1] == (6, True)
    return begun[0]


@pytest.mark.usefixtures("trained")
def test_last_checkpoint_is_evaluated_when_training_ends_or_at_once(linear, tmp_path, monkeypatch):
    assert waiting(linear, tmp_path, monkeypatch, linear.Clock(), max_steps=6) == 0
    clock = linear.Clock(lambda: announce_end(str(tmp_path)), at=20)
    assert waiting(linear, tmp_path, monkeypatch, clock) == 20


@pytest.mark.usefixtures("trained")
def test_old_end_marker_counts_after_the_delay(linear, tmp_path, monkeypatch, own_log):
    announce_end(str(tmp_path))
    assert waiting(linear, tmp_path, monkeypatch, linear.Clock()) == 120
    text = "it begins 120 seconds after the start (EvalSpec.start_delay_secs), or when training"
    assert [text in record.getMessage() for record in own_log.records] == [True]


def test_evaluator_without_a_checkpoint_says_so_once(linear, tmp_path, monkeypatch, caplog):
    def end():
        linear.make_estimator(tmp_path).train(linear.input_fn, max_steps=6)
        announce_end(str(tmp_path))

    waiting(linear, tmp_path, monkeypatch, linear.Clock(end, at=150))
    said = [record.getMessage() for record in caplog.records]
    assert said.count(f"Waiting for the first checkpoint in {tmp_path}.") == 1


def test_checkpoint_that_stays_unreadable_is_an_error(linear, trained, tmp_path, monkeypatch):
    monkeypatch.setattr(evaluation_rounds, "POLL_SECS", 0)
    for path in tmp_path.glob("*.data-*"):
        path.write_bytes(b"short")
    settings = eval_spec(linear, Exporter())
    with pytest.raises(CheckpointError, match="damaged file"):
        follow_checkpoints(EvaluationRounds(trained, settings), trained, 6, settings)


def test_damaged_checkpoint_is_left_out_until_training_makes_another(
    linear, trained, tmp_path, monkeypatch, caplog
):
    (tmp_path / "model.ckpt-6.data-00000-of-00001").write_bytes(b"short")
    naps = []

    def sleep(secs):
        naps.append(secs)
        if len(naps) == 15:
            trained.train(linear.input_fn, max_steps=8)

    clock = SimpleNamespace(monotonic=time.monotonic, sleep=sleep)
    monkeypatch.setattr(evaluation_rounds, "time", clock)
    exporter = Exporter()
    settings = eval_spec(linear, exporter)
    follow_checkpoints(EvaluationRounds(trained, settings), trained, 8, settings)
    assert exporter.told == [(8, True)]
    assert len(naps) == 15
    told = [record.getMessage() for record in caplog.records]
    assert sum(text.startswith("Will look again") for text in told) == 9
    assert f"Waiting for another checkpoint, since {tmp_path}/model.ckpt-6 stays damaged." in told


def test_model_directory_that_is_removed_is_an_error(linear, trained_dir, tmp_path, monkeypatch):
    monkeypatch.setattr(evaluation_rounds, "POLL_SECS", 0)
    folder = shutil.copytree(trained_dir, tmp_path / "run")
    estimator = linear.make_estimator(folder)

    class Remover(Exporter):
        def export(self, *args, **kwargs):
            super().export(*args, **kwargs)
            folder.rename(tmp_path / "away")

    settings = eval_spec(linear, Remover())
    with pytest.raises(
        CheckpointError, match=f"{folder}, which held .*-6, was removed or replaced"
    ):
        follow_checkpoints(EvaluationRounds(estimator, settings), estimator, None, settings)


def exporter(name):
    return SimpleNamespace(name=name, export=lambda *args, **kwargs: None)


def test_one_exporter_or_listener_stands_for_a_list():
    one, listener = exporter("a"), v1.train.CheckpointSaverListener()
    assert EvalSpec(len, exporters=one).exporters == EvalSpec(len, exporters=[one]).exporters
    assert checked_listeners([listener]) == (listener,)
    assert checked_listeners(None) == ()


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: TrainSpec(3), TypeError, "TrainSpec: input_fn must be a function.*got 3"),
        (lambda: TrainSpec(len, max_steps=0), ValueError, "max_steps must be greater than 0"),
        (lambda: TrainSpec(len, hooks=[3]), TypeError, "TrainSpec: hooks must hold"),
        (lambda: TrainSpec(len, saving_listeners=[3]), TypeError, "saving_listeners must hold"),
        (lambda: TrainSpec(len, saving_listeners=3), TypeError, "saving_listeners must be a list"),
        (lambda: EvalSpec(None), TypeError, "EvalSpec: input_fn must be a function"),
        (lambda: EvalSpec(len, steps=-1), ValueError, "EvalSpec: steps must be greater than 0"),
        (lambda: EvalSpec(len, name=3), TypeError, "name must be a string or None, got 3"),
        (lambda: EvalSpec(len, hooks=[3]), TypeError, "EvalSpec: hooks must hold"),
        (lambda: EvalSpec(len, exporters=[3]), TypeError, "exporters must hold exporters.*got 3"),
        (lambda: EvalSpec(len, exporters=[exporter("a")] * 2), ValueError, "its own name"),
        (lambda: EvalSpec(len, start_delay_secs=-1), ValueError, "start_delay_secs must be >= 0"),
        (lambda: EvalSpec(len, throttle_secs=float("nan")), ValueError, "throttle_secs must be"),
    ],
)
def test_mistakes(make, error, message):
    with pytest.raises(error, match=message):
        make()
