import socket
from types import SimpleNamespace

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


@pytest.mark.parametrize("role", ["evaluator", "ps"])
def test_evaluators_and_parameter_servers_do_not_train(role):
    check_trains(RunConfig())
    for trains in ("chief", "worker"):
        check_trains(config(trains, 0))
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


def test_device_function_of_the_user_comes_first():
    assert training_device(config(device_fn=str)) is str
    assert training_device(RunConfig(device_fn=str)) is str
    assert training_device(RunConfig()) is None


def device_that_ignores_the_model(operation):
    is_variable = operation.type in ("VariableV2", "VarHandleOp")
    return "/job:ps/task:1" if is_variable else tf.DeviceSpec.from_string("/job:worker/task:1")


@pytest.mark.parametrize("use_resource", [True, False])
@pytest.mark.parametrize("device_fn", [None, device_that_ignores_the_model])
def test_local_variables_of_a_training_graph_stay_on_the_worker(graph, device_fn, use_resource):
    optimizer = v1.train.SyncReplicasOptimizer(v1.train.GradientDescentOptimizer(0.1), 1)
    with training_scope(config(device_fn=device_fn)):
        v1.get_variable_scope().set_use_resource(use_resource)
        step = v1.train.create_global_step()
        weight = v1.get_variable("w", initializer=1.0)
        v1.get_local_variable("own", [])
        v1.metrics.mean(weight)
        optimizer.minimize(weight * weight, step)
        tf.identity(optimizer.ready_for_local_init_op)  # TensorFlow logs what nothing used.
        keras_like = v1.Variable(
            0.0,
            collections=[],
            synchronization=tf.VariableSynchronization.ON_READ,
            aggregation=tf.VariableAggregation.SUM,
        )
    own = [*v1.local_variables(), keras_like]
    assert len(own) == 5
    assert {variable.device for variable in own} == {"/job:worker/task:1"}
    assert all("/job:ps" in variable.device for variable in (step, weight))


def test_training_graph_of_a_process_on_its_own_has_no_device(graph):
    with training_scope(RunConfig()):
        made = [v1.get_local_variable("own", []), v1.get_variable("w", [])]
    assert [variable.device for variable in made] == ["", ""]
    assert "NoOp" not in {operation.type for operation in graph.get_operations()}


@pytest.fixture(scope="module")
def server():
    """A server that is a cluster of its own."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        port = held.getsockname()[1]
    return v1.train.Server({"worker": [f"127.0.0.1:{port}"]}, job_name="worker", task_index=0)


@pytest.fixture
def worker(server, monkeypatch):
    """The settings of a worker whose chief shares its server."""
    monkeypatch.setattr(recovery, "CHIEF_POLL_SECS", 0.01)
    address = server.target.removeprefix("grpc://")
    jobs = {"chief": ("a:1",), "worker": (address,)}
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
    with pytest.raises(ClusterError, match=r"worker 0 has waited 0.1 .* for chief 0 at 'a:1'"):
        creator.create_session()
    assert shown == ["waiting for chief 0 at 'a:1'"]


def test_worker_stops_waiting_when_there_is_nothing_to_wait_for(graph, worker):
    v1.get_variable("never_initialised_either", [3])
    with pytest.raises(WaitCancelled):
        waiting(worker, lambda: True).create_session()


def test_worker_uses_the_variables_of_the_chief(graph, worker, server):
    weight = v1.get_variable("shared", initializer=2.0)
    local = v1.get_local_variable("own", initializer=3.0)
    with v1.Session(server.target) as chief:
        chief.run(weight.initializer)
        with waiting(worker).create_session() as session:
            assert session.run([weight, local]) == [2.0, 3.0]


def test_worker_looks_ever_more_seldom_for_a_chief_that_is_late(graph, worker, server, monkeypatch):
    weight = v1.get_variable("late", initializer=2.0)
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
    with v1.Session(server.target) as chief, creator.create_session() as session:
        assert session.run(weight) == 2.0
    assert naps == [0.1, 0.25, 0.875, 1]


def test_chief_that_comes_back_does_not_undo_the_work_of_the_others(graph, server):
    weight = v1.get_variable("trained", initializer=2.0)
    train = weight.assign(5.0)
    v1.train.create_global_step()
    scaffold = v1.train.Scaffold()
    asked = []
    creator = RestoringSessionCreator(
        scaffold, v1.train.Saver(), lambda: asked.append(1), target=server.target
    )
    with creator.create_session() as session:
        session.run(train)
    with creator.create_session() as session:
        assert session.run(weight) == 5.0
    assert len(asked) == 1


def test_chief_restores_all_if_one_parameter_server_lost_its_part(start_servers, tmp_path):
    target = start_servers(chief=1, ps=2)["chief", 0].master
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
            session.run(destroyed)
        creator = RestoringSessionCreator(
            v1.train.Scaffold(saver=saver), saver, lambda: path, target=target
        )
        with creator.create_session() as session:
            assert session.run([kept, lost]) == [1.0, 1.0]


def test_worker_does_not_blame_the_chief_for_a_silent_server(graph, monkeypatch):
    closed = []

    class Silent:
        """A session whose server accepts connections and never answers."""

        def __init__(self, *_, **__):
            self.close = lambda: closed.append(True)

        def first_run(self, _):
            raise SilentServerError(30)

    monkeypatch.setattr(worker_session, "ServerSession", Silent)
    v1.get_variable("w", initializer=1.0)
    with pytest.raises(SilentServerError, match="within 30 seconds"):
        WorkerSessionCreator(v1.train.Scaffold(), config()).create_session()
    assert closed == [True]
