from types import SimpleNamespace
from unittest import mock

import pytest
import tensorflow as tf

from replicate.errors import ClusterError
from replicate.estimator.cluster import recovery, worker_session
from replicate.estimator.cluster.recovery import RecoveringSessionCreator, Restarts
from replicate.estimator.cluster.server_session import SilentServerError
from replicate.estimator.cluster.servers import WaitCancelled
from replicate.estimator.cluster.worker_session import WorkerSessionCreator
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
