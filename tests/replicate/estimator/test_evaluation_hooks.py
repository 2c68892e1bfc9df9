"""Hooks of training that evaluate the model, or look at its evaluations."""

import pathlib
from unittest import mock

import numpy as np
import pytest
import tensorflow as tf

from replicate.estimator.cluster_config import ClusterConfig
from replicate.estimator.early_stopping import (
    make_early_stopping_hook,
    make_stop_at_checkpoint_step_hook,
    read_eval_metrics,
    stop_if_higher_hook,
    stop_if_lower_hook,
    stop_if_no_decrease_hook,
    stop_if_no_increase_hook,
)
from replicate.estimator.evaluating import write_results
from replicate.estimator.hooks.event_file import EventFiles
from replicate.estimator.in_memory_evaluation import InMemoryEvaluatorHook

v1 = tf.compat.v1


def errors(linear, step):
    weights, bias = linear.trained(step)
    return float(np.mean(np.abs(linear.X @ weights + bias - linear.Y)))


class Count(v1.train.SessionRunHook):
    """Counts the batches."""

    batches = 0

    def after_run(self, run_context, run_values):
        self.batches += 1


@pytest.mark.parametrize(("steps", "expected"), [(3, [0, 2, 3]), (2, [0, 2])])
def test_evaluates_at_start_interval_and_end(linear, tmp_path, steps, expected):
    estimator = linear.make_estimator(tmp_path, save_checkpoints_steps=1000)
    count = Count()
    hook = InMemoryEvaluatorHook(
        estimator, linear.once_input_fn, name="in_memory", every_n_iter=2, hooks=[count]
    )
    limited = InMemoryEvaluatorHook(
        estimator, linear.once_input_fn, steps=2, name="limited", hooks=[limited_count := Count()]
    )
    estimator.train(linear.input_fn, hooks=[hook, limited], max_steps=steps)
    found = read_eval_metrics(estimator.eval_dir("in_memory"))
    assert list(found) == expected
    for step, metrics in found.items():
        assert metrics["mae"] == pytest.approx(errors(linear, step), rel=1e-4)
    assert (count.batches, limited_count.batches) == (3 * len(expected), 4)


def test_keras_metrics(linear, tmp_path, mean_metric):
    def model_fn(features, labels, mode, params):
        spec = linear.model_fn(features, labels, mode, params)
        return spec._replace(eval_metric_ops={"labels": mean_metric(labels)})

    estimator = linear.make_estimator(tmp_path, model_fn, save_checkpoints_steps=1000)
    hook = InMemoryEvaluatorHook(estimator, linear.once_input_fn)
    stop = stop_if_lower_hook(estimator, "labels", 1e9, run_every_secs=None, run_every_steps=1)
    estimator.train(linear.input_fn, hooks=[hook, stop], max_steps=3)
    found = read_eval_metrics(estimator.eval_dir())
    assert estimator.get_variable_value("global_step") == 1
    assert found[0]["labels"] == pytest.approx(np.mean(linear.Y), rel=1e-4)


@pytest.fixture
def evaluations(linear, tmp_path):
    """Evaluates in memory at steps 0 and 1; returns the metrics of both.

    It takes a function that adds to the model of a mode, and returns a scaffold, a value that is
    measured as "own", and hooks of training.
    """

    def run(add):
        def model_fn(features, labels, mode, params):
            spec = linear.model_fn(features, labels, mode, params)
            scaffold, own, hooks = add(mode)
            metrics = {**spec.eval_metric_ops, "own": (own, tf.no_op())}
            return spec._replace(scaffold=scaffold, eval_metric_ops=metrics, training_hooks=hooks)

        estimator = linear.make_estimator(tmp_path, model_fn, save_checkpoints_steps=1000)
        hook = InMemoryEvaluatorHook(estimator, linear.once_input_fn)
        estimator.train(linear.input_fn, hooks=[hook], max_steps=1)
        found = read_eval_metrics(estimator.eval_dir())
        return [found[step] for step in (0, 1)]

    return run


def test_init_fn_of_the_model_runs_before_the_variables_get_their_values(linear, evaluations):
    def add(mode):
        if mode == "train":
            return None, tf.constant(0.0), []
        extra = v1.get_variable("extra", initializer=1.0)
        bias = next(each for each in v1.global_variables() if each.op.name == "b")
        assign = [v1.assign(extra, 5.0), v1.assign(bias, [9.0])]

        def init_fn(scaffold, session):
            assert scaffold.saver is not None
            session.run(assign)

        return v1.train.Scaffold(init_fn=init_fn), extra, []

    found = evaluations(add)
    assert [metrics["own"] for metrics in found] == [5.0, 5.0]
    expected = [errors(linear, 0), errors(linear, 1)]
    assert [metrics["mae"] for metrics in found] == pytest.approx(expected, rel=1e-4)


def table(name):
    return tf.lookup.experimental.MutableHashTable(tf.string, tf.float32, -1.0, name=name)


def test_tables_are_copied(linear, evaluations):
    class Fill(v1.train.SessionRunHook):
        def __init__(self, operation):
            self.operation = operation

        def before_run(self, run_context):
            return v1.train.SessionRunArgs(self.operation)

    def add(mode):
        made = table("table")
        hooks = [Fill(made.insert("a", 7.0))] if mode == "train" else []
        return None, made.lookup(tf.constant("a")), hooks

    found = evaluations(add)
    assert [metrics["own"] for metrics in found] == [-1.0, 7.0]
    expected = [errors(linear, 0), errors(linear, 1)]
    assert [metrics["mae"] for metrics in found] == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize("training_saver", ["default", "own"])
def test_saver_of_the_model_loads_its_variables(evaluations, training_saver):
    def add(mode):
        bias = next(each for each in v1.global_variables() if each.op.name == "b")
        if mode == "train":
            v1.get_variable("average", initializer=[3.0])
            is_own = training_saver == "own"
            return v1.train.Scaffold(saver=v1.train.Saver() if is_own else None), bias[0], []
        saved = {each.op.name: each for each in v1.global_variables() if each is not bias}
        return v1.train.Scaffold(saver=v1.train.Saver({**saved, "average": bias})), bias[0], []

    assert [metrics["own"] for metrics in evaluations(add)] == [3.0, 3.0]


def test_mistakes(linear, tmp_path):
    estimator = linear.make_estimator(tmp_path)
    with pytest.raises(TypeError, match=r"must be a replicate\.Estimator, got 3"):
        InMemoryEvaluatorHook(3, linear.input_fn)
    with pytest.raises(ValueError, match="every_n_iter must be greater than 0, got 0"):
        InMemoryEvaluatorHook(estimator, linear.input_fn, every_n_iter=0)
    with pytest.raises(TypeError, match="hooks must hold"):
        InMemoryEvaluatorHook(estimator, linear.input_fn, hooks=[3])
    in_cluster = ClusterConfig({"chief": ("a:1",), "ps": ("a:2",)}, "chief", 0)
    for cluster, text in (
        (in_cluster, "'grpc://a:1' runs the training of chief 0, in a cluster with 1 pro"),
        (ClusterConfig(session_master="grpc://b:3"), "the server at 'grpc://b:3' runs"),
    ):
        with pytest.raises(ValueError, match=text):
            InMemoryEvaluatorHook(linear.make_estimator(tmp_path, cluster=cluster), linear.input_fn)


@pytest.mark.parametrize(
    ("fault", "text"),
    [
        ("variable", "has not in mode 'train': extra"),
        ("table", r"saveable objects in mode 'eval' that .* counts"),
        ("init_fn", "has an init_fn, but every variable gets its value from the training session"),
    ],
)
def test_models_whose_evaluation_would_differ_are_refused(evaluations, fault, text):
    def add(mode):
        own, init_fn = tf.constant(0.0), None
        if mode == "eval" and fault == "variable":
            own = v1.get_variable("extra", [])
        if mode == "eval" and fault == "table":
            own = table("counts").lookup(tf.constant("a"))
        if mode == "eval" and fault == "init_fn":
            init_fn = mock.Mock()
        return v1.train.Scaffold(init_fn=init_fn), own, []

    with pytest.raises(ValueError, match=text):
        evaluations(add)


@pytest.fixture
def evaluated(linear, tmp_path):
    """An Estimator whose past evaluations of "score" at steps 10, 20, ... are given by a list."""
    estimator = linear.make_estimator(tmp_path)

    def make(*scores, name=None):
        for place, score in enumerate(scores, start=1):
            write_results(
                estimator.eval_dir(name), {"score": score, "global_step": 10 * place}, EventFiles()
            )
        return estimator

    return make


def steps_made(hook, steps=3):
    """Number of steps that a model makes with a hook: some, unless the hook stops it."""
    with tf.Graph().as_default():
        train_op = v1.assign_add(v1.train.create_global_step(), 1).op
        hooks = [v1.train.StopAtStepHook(num_steps=steps), hook]
        made = 0
        with v1.train.MonitoredSession(hooks=hooks) as session:
            while not session.should_stop():
                session.run(train_op)
                made += 1
    return made


EVERY_STEP = {"run_every_secs": None, "run_every_steps": 1}


def test_metrics_of_all_evaluations_are_read_in_order(evaluated):
    estimator = evaluated(3.0, 1.0)
    write_results(estimator.eval_dir(), {"loss": 0.5, "global_step": 5}, EventFiles())
    found = read_eval_metrics(estimator.eval_dir())
    assert list(found.items()) == [(5, {"loss": 0.5}), (10, {"score": 3.0}), (20, {"score": 1.0})]
    assert read_eval_metrics("/absent") == {}


def test_incomplete_event_is_left_out(evaluated):
    estimator = evaluated(3.0)
    (path,) = pathlib.Path(estimator.eval_dir()).glob("*tfevents*")
    whole = path.read_bytes()
    path.write_bytes(whole + whole[-20:-5])
    assert read_eval_metrics(estimator.eval_dir()) == {10: {"score": 3.0}}


@pytest.mark.parametrize(
    ("make", "limit", "scores", "stops"),
    [
        (stop_if_higher_hook, 2.0, [1, 3, 1], True),
        (stop_if_higher_hook, 3.0, [1, 3, 1], False),
        (stop_if_lower_hook, 2.0, [3, 1, 3], True),
        (stop_if_lower_hook, 1.0, [3, 1, 3], False),
        (stop_if_no_increase_hook, 20, [1, 3, 2, 3], True),
        (stop_if_no_increase_hook, 21, [1, 3, 2, 3], False),
        (stop_if_no_increase_hook, 20, [1, 2, 3, 4], False),
        (stop_if_no_decrease_hook, 20, [3, 1, 2, 1], True),
        (stop_if_no_decrease_hook, 20, [3, 1, 2, 0], False),
        (stop_if_no_decrease_hook, 1, [], False),
    ],
)
def test_stops_as_the_evaluations_say(evaluated, make, limit, scores, stops):
    hook = make(evaluated(*scores), "score", limit, **EVERY_STEP)
    assert steps_made(hook) == (1 if stops else 3)


def test_early_evaluations_and_other_directories_are_not_looked_at(evaluated):
    estimator = evaluated(3, 0)
    for min_steps, made in ((10, 1), (11, 3)):
        hook = stop_if_higher_hook(estimator, "score", 2, min_steps=min_steps, **EVERY_STEP)
        assert steps_made(hook) == made
    for made in (3, 1):
        hook = stop_if_higher_hook(estimator, "score", 2, estimator.eval_dir("other"), **EVERY_STEP)
        assert steps_made(hook) == made
        evaluated(3, name="other")


def test_unknown_metric_is_named(evaluated):
    estimator = evaluated(1.0)
    hook = stop_if_lower_hook(estimator, "sore", 2)
    with pytest.raises(ValueError, match=r"metric 'sore', but the evaluations hold \['score'\]"):
        steps_made(hook)


def test_function_is_asked_at_its_interval(linear, tmp_path):
    estimator = linear.make_estimator(tmp_path)
    asked = []
    hook = make_early_stopping_hook(
        estimator, lambda: asked.append(1), run_every_secs=None, run_every_steps=3
    )
    assert steps_made(hook, 7) == 7
    assert len(asked) == 3


def test_stopping_leaves_nothing_in_the_checkpoint(linear, tmp_path):
    estimator = linear.make_estimator(tmp_path)
    hook = make_early_stopping_hook(estimator, lambda: True)
    estimator.train(linear.input_fn, hooks=[hook], steps=3)
    assert estimator.get_variable_value("global_step") == 1
    assert estimator.get_variable_names() == ["b", "b/Momentum", "global_step", "w", "w/Momentum"]


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"estimator": 3}, TypeError, "estimator must be a replicate.Estimator, got 3"),
        ({"should_stop_fn": 3}, TypeError, "should_stop_fn must be a function"),
        ({"run_every_steps": 3}, ValueError, "set the other to None, got 60 and 3"),
        ({"run_every_secs": None}, ValueError, "got None and None"),
    ],
)
def test_mistakes_of_early_stopping(linear, tmp_path, arguments, error, message):
    given = {"estimator": linear.make_estimator(tmp_path), "should_stop_fn": bool, **arguments}
    with pytest.raises(error, match=message):
        make_early_stopping_hook(**given)


# In a cluster

JOBS = {"chief": ("a:1",), "worker": ("a:2",), "ps": ("a:3",)}


def test_chief_tells_the_workers(linear, roles, tmp_path, graph):
    hooks = {}
    for role in ("chief", "worker"):
        estimator = linear.make_estimator(tmp_path, cluster=ClusterConfig(JOBS, role, 0))
        hooks[role] = make_early_stopping_hook(estimator, lambda: True, **EVERY_STEP)
    v1.train.create_global_step()
    step = tf.no_op()
    for hook in hooks.values():
        hook.begin()
    creator = v1.train.ChiefSessionCreator(master=roles["chief", 0].master)
    for role, stops in (("worker", False), ("chief", True), ("worker", True)):
        with v1.train.MonitoredSession(creator, [hooks[role]]) as session:
            session.run(step)
            assert session.should_stop() == stops


def test_worker_stops_when_the_checkpoint_is_there(linear, tmp_path, graph):
    cluster = ClusterConfig(JOBS, "worker", 0)
    estimator = linear.make_estimator(tmp_path, cluster=cluster)
    hook = make_stop_at_checkpoint_step_hook(estimator, 6, wait_after_file_check_secs=0)
    step = v1.train.create_global_step()
    train_op = v1.assign_add(step, 1).op
    with v1.train.MonitoredSession(v1.train.ChiefSessionCreator(), [hook]) as session:
        for _ in range(8):
            session.run(train_op)
        assert not session.should_stop()
        linear.make_estimator(tmp_path).train(linear.input_fn, max_steps=6)
        session.run(train_op)
        assert session.should_stop()


def test_chief_stops_at_the_step(linear, tmp_path):
    estimator = linear.make_estimator(tmp_path)
    hook = make_stop_at_checkpoint_step_hook(estimator, 2)
    assert steps_made(hook) == 2
