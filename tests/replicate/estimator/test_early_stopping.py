import pathlib

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

v1 = tf.compat.v1


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
def test_mistakes(linear, tmp_path, arguments, error, message):
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
