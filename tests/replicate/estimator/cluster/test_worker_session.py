from types import SimpleNamespace
from unittest import mock

import pytest
import tensorflow as tf

from replicate.errors import ClusterError
from replicate.estimator.cluster import recovery, worker_session
from replicate.estimator.cluster.recovery import RecoveringSessionCreator, Restarts
from replicate.estimator.cluster.server_session import SilentServerError
from replicate.estimator.cluster.servers import WaitCancelled
from replicate.estimator.cluster.worker_session import (
    WorkerSessionCreator,
    check_trains,
    training_device,
    training_scope,
)
from replicate.estimator.cluster_config import ClusterConfig
from replicate.estimator.run_config import RunConfig
from replicate.estimator.session import RestoringSessionCreator

v1 = tf.compat.v1

CHIEF_POLL_SECS = recovery.CHIEF_POLL_SECS
JOBS = {"chief": ("a:1",), "worker": ("a:2", "a:3"), "ps": ("a:4", "a:5")}


def waiting(settings, should_cancel=bool, show_start=None):
    """The creator of a worker's sessions, which waits for the chief."""
    creator = WorkerSessionCreator(v1.train.Scaffold(), settings)
    restarts = Restarts(settings, SimpleNamespace(step=0))
    return RecoveringSessionCreator(creator, restarts, settings, should_cancel, show_start)


def config(role="worker", index=1, **settings):
    return RunConfig(cluster=ClusterConfig(JOBS, role, index), **settings)


def test_evaluators_and_parameter_servers_do_not_train():
    for trains in (RunConfig(), config("chief", 0), config("worker", 0)):
        check_trains(trains)
    for role in ("evaluator", "ps"):
        with pytest.raises(ValueError, match=f"makes this process {role} 1, .*train_and_evaluate"):
            check_trains(config(role, 1))


def test_variables_go_to_the_parameter_servers_and_the_rest_to_the_worker(graph):
    with v1.device(training_device(config())):
        first, second = v1.get_variable("a", [3]), v1.get_variable("b", [3])
        total = first + second
    assert [variable.device for variable in (first, second)] == [
        "/job:ps/task:0",
        "/job:ps/task:1",
    ]
    assert total.device == "/job:worker/task:1"
    assert training_device(config(device_fn=str)) is str, "that of the user comes first"
    assert training_device(RunConfig(device_fn=str)) is str


def test_local_variables_stay_on_the_worker_whatever_the_device_function_says(graph):
    def device_fn(operation):
        is_variable = operation.type in ("VariableV2", "VarHandleOp")
        return "/job:ps/task:1" if is_variable else tf.DeviceSpec.from_string("/job:worker/task:1")

    with training_scope(config(device_fn=device_fn)):
        weight = v1.get_variable("w", initializer=1.0)
        v1.get_local_variable("own", [])
        v1.get_local_variable("old", [], use_resource=False)
        keras_like = v1.Variable(
            0.0,
            collections=[],
            synchronization=tf.VariableSynchronization.ON_READ,
            aggregation=tf.VariableAggregation.SUM,
        )
    own = [*v1.local_variables(), keras_like]
    assert [variable.device for variable in own] == ["/job:worker/task:1"] * 3
    assert "/job:ps" in weight.device


def test_training_graph_of_a_process_on_its_own_has_no_device(graph):
    with training_scope(RunConfig()):
        made = [v1.get_local_variable("own", []), v1.get_variable("w", [])]
    assert [variable.device for variable in made] == ["", ""]
    assert "NoOp" not in {operation.type for operation in graph.get_operations()}


@pytest.fixture
def target(roles):
    return roles["worker", 0].master


@pytest.fixture
def worker(target, monkeypatch):
    """The settings of a worker whose chief shares its server."""
    monkeypatch.setattr(recovery, "CHIEF_POLL_SECS", 0.01)
    jobs = {"chief": ("a:1",), "worker": (target.removeprefix("grpc://"),)}
    options = v1.ConfigProto(device_filters=["/job:worker/task:0"])
    return RunConfig(
        cluster=ClusterConfig(jobs, "worker", 0),
        session_config=options,
        session_creation_timeout_secs=0.1,
    )


def test_worker_waits_for_the_chief(graph, worker):
    v1.get_variable("never_initialised", [3])
    shown = []
    creator = waiting(worker, show_start=shown.append)
    cancelled = waiting(worker, lambda: True)
    with pytest.raises(ClusterError, match=r"worker 0 has waited 0.1 .* for chief 0 at 'a:1'"):
        creator.create_session()
    assert shown == ["waiting for chief 0 at 'a:1'"]
    with pytest.raises(WaitCancelled):
        cancelled.create_session()


def test_worker_looks_for_a_late_chief_and_uses_its_variables(graph, worker, target, monkeypatch):
    weight = v1.get_variable("late", initializer=2.0)
    local = v1.get_local_variable("own", initializer=3.0)
    naps = []

    class Clock:
        """A clock that only sleeping moves on; the chief comes during the fourth nap."""

        @staticmethod
        def monotonic():
            return 25 * sum(naps)

        @staticmethod
        def sleep(seconds):
            naps.append(seconds)
            if len(naps) == 4:
                chief.run(weight.initializer)

    monkeypatch.setattr(recovery, "CHIEF_POLL_SECS", CHIEF_POLL_SECS)
    monkeypatch.setattr(recovery, "time", Clock)
    patient = worker.replace(session_creation_timeout_secs=60)
    creator = waiting(patient)
    with v1.Session(target) as chief, creator.create_session() as session:
        assert session.run([weight, local]) == [2.0, 3.0]
    assert naps == [0.1, 0.25, 0.875, 1]


def test_chief_that_comes_back_restores_only_if_a_parameter_server_lost_its_part(roles, tmp_path):
    target, asked = roles["chief", 0].master, []
    with tf.Graph().as_default():
        with v1.device("/job:ps/task:0"):
            kept = v1.get_variable("kept", initializer=1.0)
        with v1.device("/job:ps/task:1"):
            lost = v1.get_variable("lost", initializer=1.0)
        saver = v1.train.Saver()
        with v1.Session(target) as session:
            session.run([kept.initializer, lost.initializer])
            path = saver.save(session, f"{tmp_path}/c", write_meta_graph=False)
            session.run(kept.assign(5.0))
            destroyed = tf.raw_ops.DestroyResourceOp(resource=lost.handle)
            creator = RestoringSessionCreator(
                v1.train.Scaffold(saver=saver),
                saver,
                lambda: asked.append(1) or path,
                target=target,
            )
            with creator.create_session() as other:
                assert other.run([kept, lost]) == [5.0, 1.0]
            assert asked == []
            session.run(destroyed)
        with creator.create_session() as session:
            assert session.run([kept, lost]) == [1.0, 1.0]


def test_worker_does_not_blame_the_chief_for_a_silent_server(graph, monkeypatch):
    silent = mock.Mock()
    silent.first_run.side_effect = SilentServerError(30)
    monkeypatch.setattr(worker_session, "ServerSession", lambda *_, **__: silent)
    v1.get_variable("w", initializer=1.0)
    with pytest.raises(SilentServerError, match="within 30 seconds"):
        WorkerSessionCreator(v1.train.Scaffold(), config()).create_session()
    silent.close.assert_called_once()
