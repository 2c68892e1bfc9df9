"""Workers that differ, fail or are absent: the same error on all workers, which names the cause."""

import json
import socket
import threading
import time

import numpy as np
import pytest
import tensorflow as tf

import replicate
from replicate.addresses import host_and_port
from replicate.estimator import worker_start
from replicate.estimator.cluster import meeting, metric_exchange, servers, watchdog, worker_group
from replicate.estimator.cluster_config import ClusterConfig
from replicate.launch.plan import free_ports

v1 = tf.compat.v1

SECS = 60


def with_a_bad_batch(workers, count):
    """The inputs of two workers: after some batches the labels of the second one are NaN."""

    def input_fn(is_bad):
        features, labels = workers.rows(0, 4)
        good = tf.data.Dataset.from_tensors((features, labels))
        bad = tf.data.Dataset.from_tensors((features, labels * np.float32("nan")))
        batches = good.repeat(count - 1).concatenate(bad if is_bad else good)
        return batches.concatenate(good.repeat())

    return [lambda: input_fn(is_bad=False), lambda: input_fn(is_bad=True)]


@pytest.mark.parametrize("accumulate_steps", [1, pytest.param(2, marks=pytest.mark.broad)])
def test_nan_on_one_worker_ends_all_workers_and_names_it(workers, tmp_path, accumulate_steps):
    model_fn = workers.model(accumulate_steps=accumulate_steps)
    found = workers.train_together(model_fn, with_a_bad_batch(workers, 3), tmp_path)
    assert [type(each) for each in found] == [replicate.NonFiniteError] * 2
    assert str(found[0]) == str(found[1])
    assert "is NaN or infinite, because of worker 0 at '127.0.0.1:" in str(found[0])
    assert "chief" not in str(found[0])


def test_loss_that_is_not_finite_names_the_worker(workers, tmp_path):
    """Its gradients are finite: the loss has a summand without variables."""

    def model_fn(features, labels, mode):
        kernel = v1.get_variable("kernel", [5, 1], initializer=v1.constant_initializer(0.1))
        loss = tf.reduce_mean(tf.matmul(features["x"], kernel)) + tf.reduce_mean(labels)
        optimizer = replicate.TowerOptimizer(v1.train.GradientDescentOptimizer(0.01))
        train_op = optimizer.minimize(loss, v1.train.get_global_step())
        return replicate.EstimatorSpec(mode, loss=loss, train_op=train_op)

    for each in workers.train_together(model_fn, with_a_bad_batch(workers, 2), tmp_path):
        assert isinstance(each, replicate.NonFiniteError)
        assert "is nan, because of worker 0 at '127.0.0.1:" in str(each)


def test_worker_that_differs_is_named_at_the_start(workers, tmp_path):
    models = [workers.model(), workers.model(lambda: v1.train.AdamOptimizer(0.01))]
    inputs, folders = workers.parts(0, 6, 12), [tmp_path] * 2
    for each in workers.at_once(workers.train, models, inputs, folders, workers.shared(2)):
        assert isinstance(each, replicate.WorkersDifferError)
        assert "worker 0 at " in str(each)
        assert "about to train something else than chief 0 at" in str(each)
        assert each.code == 2


class NoGroup:
    records = ("Add float32 []",)


def test_versions_are_compared_before_all_else(graph):
    """Another version has other settings, variables and collectives, too."""
    facts = worker_start._graph_facts(NoGroup())
    assert facts["version of TensorFlow"] == tf.__version__
    for part in ("replicate", "TensorFlow"):
        other = {**facts, f"version of {part}": "0.1.2", "collective": ["another"]}
        told = meeting._difference(
            {0: {"cluster": {}, "facts": facts}, 1: {"cluster": {}, "facts": other, "name": "me"}},
            ["the chief"],
        )
        assert told == (
            f"me is about to train something else than the chief: its version of {part} is "
            f"'0.1.2', and that of the chief {facts[f'version of {part}']!r}. Start the same "
            "program with the same arguments and the same versions on all workers."
        )


def test_another_cluster_is_told_with_both():
    notes = {0: {"cluster": {"chief": ["a:1"]}}, 2: {"cluster": {"chief": ["b:1"]}, "name": "me"}}
    told = meeting._difference(notes, ["the chief", "worker 0"])
    assert told.startswith("me has another cluster in TF_CONFIG than the chief: {")
    assert "b:1" in told
    assert "a:1" in told


def test_worker_that_takes_too_long_ends_a_step_although_it_answers(workers, tmp_path, monkeypatch):
    # The worker, in the same process, ends after the chief, however long that takes.
    for name in ("WAKE_SECS", "PEER_WAKE_SECS"):
        monkeypatch.setattr(watchdog, name, SECS)
    has_ended = threading.Event()

    class Wait(v1.train.SessionRunHook):
        def after_run(self, run_context, run_values):
            assert has_ended.wait(SECS)

    def work(role, input_fn):
        hooks = [] if role.is_chief else [Wait()]
        settings = replicate.AllReduce(timeout_secs=0.5)
        try:
            workers.train(workers.model(), input_fn, tmp_path, role, 4, hooks, settings)
        finally:
            has_ended.set()

    found = workers.at_once(work, workers.new(2), workers.parts(0, 6, 12))
    for name, error in zip(("chief 0", "worker 0"), found, strict=True):
        assert isinstance(error, replicate.ClusterError)
        assert str(error).startswith(f"{name} has made no step for ")
        assert "one of the workers, all of which can be reached" in str(error)


def test_absent_workers_are_named(workers, tmp_path):
    chief, _, last = workers.new(3)
    for role, text in (
        (chief, r"^chief 0 has (waited 0\.2 seconds|made no step) .*worker 0 at "),
        (last, "^worker 1 has (waited .*chief 0|made no step .*(chief|worker) 0) at '127"),
    ):
        estimator = workers.estimator(
            replicate.replicate_model_fn(workers.model(), devices=workers.ONE),
            tmp_path,
            role,
            session_creation_timeout_secs=0.2,
        )
        with pytest.raises(replicate.ClusterError, match=text):
            estimator.train(workers.parts(0, 12)[0], max_steps=1)


def test_worker_too_many_is_refused_while_the_others_train(workers, tmp_path):
    roles, inputs = workers.new(2), workers.parts(0, 6, 12)
    address = f"127.0.0.1:{free_ports(1)[0]}"
    jobs = {**roles[0].jobs, "worker": (*roles[0].jobs["worker"], address)}
    surplus = ClusterConfig(jobs, "worker", 1)
    has_begun, is_refused = threading.Event(), threading.Event()

    class Wait(v1.train.SessionRunHook):
        def after_run(self, run_context, run_values):
            has_begun.set()
            assert is_refused.wait(SECS)

    def work(role, input_fn):
        if role is not surplus:
            hooks = [Wait()]
            return workers.train(workers.model(), input_fn, tmp_path, role, 2, hooks)
        assert has_begun.wait(SECS)
        try:
            return workers.train(workers.model(), input_fn, tmp_path, role)
        finally:
            is_refused.set()

    *others, found = workers.at_once(work, [*roles, surplus], [*inputs, inputs[0]])
    assert isinstance(found, replicate.WorkersDifferError)
    assert "is one worker too many: the chief trains with 2 workers already" in str(found)
    workers.only(others)


def test_worker_whose_variables_differ_is_named(workers, tmp_path):
    class Spoil(v1.train.SessionRunHook):
        def __init__(self, role):
            self._is_active = role.task_type == "worker"

        def begin(self):
            out = next(each for each in v1.global_variables() if each.op.name == "out")
            self._change = v1.assign_add(out, tf.ones([4, 1]))

        def after_run(self, run_context, run_values):
            if self._is_active:
                run_context.session.run(self._change)

    inputs = workers.parts(0, 6, 12)
    for each in workers.train_together(workers.model(), inputs, tmp_path, hook=Spoil):
        assert isinstance(each, replicate.WorkersDifferError)
        assert str(each).startswith("At step 3 workers have other variables than chief 0 at ")
        assert "worker 0 at " in str(each)
        assert "'out'" in str(each)


@pytest.mark.parametrize("end", ["of training", "of an evaluation"])
def test_chief_does_not_wait_for_a_worker_that_has_ended(workers, end):
    """It waits as long as something listens at the worker's address: that may only be slow."""
    chief, worker = workers.new(2)
    config = replicate.RunConfig(
        cluster=chief, train_distribute=replicate.AllReduce(), progress="off"
    )
    group, call = worker_group.join_group(config)
    looks = []

    def look():
        with socket.create_server(host_and_port(worker.jobs["worker"][0])) as server:
            ready.set()
            while len(looks) < 3:
                server.accept()[0].close()
                looks.append(1)

    ready = threading.Event()
    process = threading.Thread(target=look, daemon=True)
    process.start()
    assert ready.wait(SECS)
    started = time.monotonic()
    if end == "of training":
        meeting.Meeting(config, group.names, group.rank, call).end()
    else:
        exchange = metric_exchange.MetricExchange(config, group.names, group.rank)
        exchange._exchange(exchange._key(1), json.dumps({"id": "of the worker"}))
        exchange._await_readers({"of the worker"})
    assert len(looks) == 3
    assert time.monotonic() - started < servers.LEAVE_SECS / 2
    process.join(SECS)
