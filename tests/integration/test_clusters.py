"""Clusters whose servers are all in this process: synchronous training equals that of one process.

Each worker is a thread with a graph and a session of its own; the parameters are on a server.
"""

import contextlib
import os
import signal
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np
import pytest
import tensorflow as tf

import kfac
import model_deploy
import replicate
from replicate.estimator.cluster_config import ClusterConfig
from replicate.launch.plan import free_ports

v1 = tf.compat.v1

ROWS, STEPS, SECS = 8, 12, 60
X = np.random.RandomState(0).randn(ROWS, 5).astype(np.float32)
Y = (X @ np.arange(1, 6) + 0.1).astype(np.float32)[:, None]
TOWERS = ["/cpu:0", "/cpu:1"]


class Cluster(NamedTuple):
    """Running servers of a chief, two workers and a parameter server.

    Attributes:
      roles: The chief and the first worker, in a cluster without the second one.
      targets: Addresses of the two workers for sessions.
    """

    roles: list[ClusterConfig]
    targets: list[str]


@pytest.fixture(scope="module")
def running():
    chief, first, second, ps = (f"127.0.0.1:{port}" for port in free_ports(4))
    whole = {"chief": [chief], "worker": [first, second], "ps": [ps]}
    options = v1.ConfigProto(device_count={"CPU": 2})
    tasks = [("chief", 0), ("worker", 0), ("worker", 1), ("ps", 0)]
    servers = [tf.distribute.Server(whole, *task, config=options) for task in tasks]
    jobs = {"chief": (chief,), "worker": (first,), "ps": (ps,)}
    roles = [ClusterConfig(jobs, job, 0) for job in ("chief", "worker")]
    return Cluster(roles, [server.target for server in servers[1:3]])


@pytest.fixture
def cluster(running, start_servers):
    """The cluster without variables. `start_servers` lets those who wait look again soon."""
    v1.Session.reset(running.targets[0])
    return running


def loss_of(features, labels):
    """A small network, so that the order of variables matters, and its loss."""
    with v1.variable_scope("net", use_resource=True):
        hidden_weights = v1.get_variable(
            "hidden", [5, 4], initializer=v1.constant_initializer(np.eye(5, 4) + 0.1)
        )
        weights = v1.get_variable("out", [4, 1], initializer=v1.constant_initializer(0.3))
    hidden = tf.tanh(tf.matmul(features, hidden_weights))
    return tf.reduce_mean(tf.square(tf.matmul(hidden, weights) - labels))


def momentum():
    return v1.train.MomentumOptimizer(0.002, 0.9)


def repeated(*batch):
    return tf.data.Dataset.from_tensors(batch).repeat()


@pytest.fixture(scope="module")
def one_process(tmp_path_factory):
    """The variables after training on the whole batch."""

    def model_fn(features, labels, mode):
        loss = loss_of(features, labels)
        train_op = momentum().minimize(loss, v1.train.get_global_step())
        return replicate.EstimatorSpec(mode, loss=loss, train_op=train_op)

    estimator = make_estimator(model_fn, tmp_path_factory.mktemp("one"))
    return values(estimator.train(lambda: repeated(X, Y), max_steps=STEPS))


def make_estimator(model_fn, folder, **settings):
    config = replicate.RunConfig(progress="off", save_checkpoints_steps=1000, **settings)
    return replicate.Estimator(model_fn, str(folder), config)


def values(estimator):
    return {name: estimator.get_variable_value(name) for name in estimator.get_variable_names()}


def at_once(function, *arguments):
    """Calls a function in threads, as `map` does; raises what one of them raises."""
    with ThreadPoolExecutor() as threads:
        calls = [threads.submit(function, *each) for each in zip(*arguments, strict=True)]
        for call in calls:
            call.result(SECS)


def assert_close(found, expected, tolerance=2e-6):
    """Compares to a share of each variable's largest value: workers add up as they come."""
    for name, value in expected.items():
        atol = tolerance * max(1.0, np.abs(value).max())
        np.testing.assert_allclose(found[name], value, rtol=0, atol=atol, err_msg=name)


def test_synchronous_workers_with_two_towers_equal_one_process(cluster, tmp_path, one_process):
    seen = []

    def model_fn(features, labels, mode, config):
        loss = loss_of(features, labels)
        optimizer = replicate.TowerOptimizer(
            lambda: v1.train.SyncReplicasOptimizer(momentum(), replicas_to_aggregate=2)
        )
        train_op = optimizer.minimize(loss, v1.train.get_global_step())
        hook = replicate.SyncReplicasHook(lambda: optimizer.wrapped, config.is_chief, num_tokens=0)
        seen.append((loss.device, {variable.device for variable in v1.trainable_variables()}))
        return replicate.EstimatorSpec(mode, loss=loss, train_op=train_op, training_hooks=[hook])

    def own_rows(config):
        half = config.global_id_in_cluster
        return repeated(X[half::2], Y[half::2])

    def train(role):
        replicated = replicate.replicate_model_fn(model_fn, devices=TOWERS)
        make_estimator(replicated, tmp_path, cluster=role).train(own_rows, max_steps=STEPS)

    at_once(train, cluster.roles)
    assert_close(values(make_estimator(model_fn, tmp_path)), one_process)
    assert {device for device, _ in seen} == {
        f"/job:{job}/task:0/device:CPU:{tower}" for job in ("chief", "worker") for tower in (0, 1)
    }
    assert all(device.startswith("/job:ps") for _, on in seen for device in on)


def test_deployment_config_of_a_cluster_equals_one_process(cluster, one_process):
    """Two replicas with two clones each and a parameter server, in sessions of their own."""
    found = {}
    variables_have_values = threading.Event()

    def replica(index):
        config = model_deploy.DeploymentConfig(
            num_clones=2, clone_on_cpu=True, replica_id=index, num_replicas=2, num_ps_tasks=1
        )
        with tf.Graph().as_default(), v1.device(f"/job:worker/task:{index}"):
            shards = iter(zip(np.split(X[index::2], 2), np.split(Y[index::2], 2), strict=True))

            def model_fn():
                v1.losses.add_loss(loss_of(*map(tf.constant, next(shards))))

            with v1.device(config.variables_device()):
                step = v1.train.get_or_create_global_step()
            clones = model_deploy.create_clones(config, model_fn)
            sync = v1.train.SyncReplicasOptimizer(momentum(), replicas_to_aggregate=2)
            with v1.device(config.optimizer_device()):
                _, pairs = model_deploy.optimize_clones(clones, sync)
            with v1.device(config.variables_device()):
                train_op = sync.apply_gradients(pairs, step)
            hook = replicate.SyncReplicasHook(sync, index == 0, num_tokens=0)
            kind = v1.train.ChiefSessionCreator if index == 0 else v1.train.WorkerSessionCreator
            options = v1.ConfigProto(
                device_filters=["/job:ps", f"/job:worker/task:{index}"],
                allow_soft_placement=True,
            )
            creator = kind(v1.train.Scaffold(), cluster.targets[index], options)
            # A worker that looks too early looks again after 30 seconds.
            assert index == 0 or variables_have_values.wait(SECS)
            with v1.train.MonitoredSession(creator, [hook]) as session:
                variables_have_values.set()
                while not session.should_stop() and session.run(step) < STEPS:
                    session.run(train_op)
                if index == 0:
                    variables = v1.trainable_variables()
                    names = [variable.op.name for variable in variables]
                    found.update(zip(names, session.run(variables), strict=True))
                    assert session.run(step) == STEPS

    at_once(replica, (0, 1))
    assert len(found) == 2
    assert_close(found, {name: one_process[name] for name in found})


def test_signal_ends_a_chief_that_waits_for_a_worker(cluster, tmp_path):
    steps = threading.Event()

    def model_fn(features, labels, mode, config):
        loss = loss_of(features, labels)
        sync = v1.train.SyncReplicasOptimizer(momentum(), replicas_to_aggregate=2)
        train_op = sync.minimize(loss, v1.train.get_global_step())
        hook = sync.make_session_run_hook(config.is_chief, num_tokens=0)
        return replicate.EstimatorSpec(mode, loss=loss, train_op=train_op, training_hooks=[hook])

    class Started(v1.train.SessionRunHook):
        def before_run(self, run_context):
            steps.set()

    def send():
        assert steps.wait(30)
        os.kill(os.getpid(), signal.SIGTERM)

    sender = threading.Thread(target=send)
    sender.start()
    estimator = make_estimator(model_fn, tmp_path, cluster=cluster.roles[0])
    with pytest.raises(replicate.TrainingInterrupted) as ended:
        estimator.train(lambda: repeated(X, Y), max_steps=5, hooks=[Started()])
    sender.join()
    assert (ended.value.code, ended.value.step) == (143, 0)


class Worker:
    """The graph of a worker, whose model has weights and a moving mean of its batches."""

    ROWS = np.array([[1.0], [3.0], [10.0], [20.0]], np.float32)

    def __init__(self, index, target, make_optimizer, use_resource=True):
        self.task = f"/job:worker/task:{index}"
        self.graph = tf.Graph()
        self.optimizer = replicate.TowerOptimizer(make_optimizer())
        self._target, self._use_resource = target, use_resource
        setter = v1.train.replica_device_setter(ps_tasks=1, worker_device=self.task)
        replicated = replicate.replicate_model_fn(self._model_fn, devices=TOWERS)
        with self.graph.as_default(), v1.device(setter):
            self.step = v1.train.get_or_create_global_step()
            spec = replicated(tf.constant((1 + 9 * index) * self.ROWS), None, "train")
            self.train_op = spec.train_op
            self.locals = v1.local_variables()
            self.init = v1.global_variables_initializer()
            self.local_init = v1.local_variables_initializer()

    def _model_fn(self, features, labels, mode):
        with v1.variable_scope("model", use_resource=self._use_resource):
            weight = v1.get_variable("weight", initializer=1.0)
            moving = v1.get_variable("moving", initializer=0.0, trainable=False)
        update = v1.assign(moving, 0.5 * moving + 0.5 * tf.reduce_mean(features))
        v1.add_to_collection(v1.GraphKeys.UPDATE_OPS, update)
        loss = tf.reduce_mean(weight * features)
        train_op = self.optimizer.minimize(loss, v1.train.get_global_step())
        return replicate.EstimatorSpec(mode, loss=loss, train_op=train_op)

    def session(self):
        options = v1.ConfigProto(allow_soft_placement=False, device_filters=["/job:ps", self.task])
        return v1.Session(self._target, graph=self.graph, config=options)


def descent():
    return v1.train.GradientDescentOptimizer(0.1)


def test_step_of_a_worker_leaves_the_copies_of_another(cluster):
    one, other = (Worker(index, cluster.targets[index], descent) for index in (0, 1))
    with one.session() as session, other.session() as other_session:
        session.run(one.init)
        session.run(one.local_init)
        other_session.run(other.local_init)
        session.run(one.train_op)
        before = session.run(one.locals)
        other_session.run(other.train_op)
        others = other_session.run(other.locals)
        np.testing.assert_array_equal(session.run(one.locals), before)
    assert [variable.device for variable in one.locals] == [f"{one.task}/device:CPU:1"]
    assert before == [0.5 * one.ROWS.mean()]
    assert others == [0.25 * before[0] + 5 * one.ROWS.mean()]


@contextlib.contextmanager
def synchronous(chief):
    """A session of the chief, whose thread makes a step whenever there are enough gradients."""
    with chief.session() as session:
        session.run(chief.init)
        session.run(chief.local_init)
        session.run(chief.optimizer.wrapped.chief_init_op)
        coord = v1.train.Coordinator()
        runner = chief.optimizer.wrapped.get_chief_queue_runner()
        runner.create_threads(session, coord, daemon=True, start=True)
        yield session
        coord.request_stop()


# Closing a session cancels the thread that waits for gradients, which TensorFlow lets show.
cancels = pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
SOON = v1.RunOptions(timeout_in_ms=20_000)


@cancels
def test_training_goes_on_while_a_surplus_worker_restarts(cluster):
    """Were its local step that of all, set to 0, it would make the gradients of others stale."""

    def sync():
        return v1.train.SyncReplicasOptimizer(descent(), 1, 1)

    chief, surplus = (Worker(index, cluster.targets[index], sync) for index in (0, 1))
    with synchronous(chief) as session:
        for _ in range(5):
            session.run(chief.train_op, options=SOON)
            with surplus.session() as restarted:
                restarted.run(surplus.local_init)
        assert session.run(chief.step) == 5


@cancels
def test_step_does_not_wait_for_a_backup_worker_and_drops_its_late_gradient(cluster):
    def sync():
        return v1.train.SyncReplicasOptimizer(
            descent(), replicas_to_aggregate=1, total_num_replicas=2
        )

    chief, late = (Worker(index, cluster.targets[index], sync) for index in (0, 1))
    with synchronous(chief) as session, late.session() as late_session:
        late_session.run(late.local_init)
        session.run(chief.train_op, options=SOON)
        late_session.run(late.train_op, options=SOON)
        assert session.run(chief.step) == 1
        [weight] = session.run(chief.graph.get_collection(v1.GraphKeys.TRAINABLE_VARIABLES))
        assert weight == pytest.approx(1 - 0.1 * chief.ROWS.mean())


@pytest.mark.parametrize("towers", [0, 2])
def test_only_the_local_step_of_kfac_is_on_the_worker(graph, towers):
    def make_kfac():
        return kfac.ClusterKfacOpt(
            kfac.WorkerRole("shared", num_workers=2, task_index=1),
            layer_collection=kfac.graph_layer_collection(),
            learning_rate=0.1,
            damping=0.1,
        )

    def model_fn(features, labels, mode):
        layers = kfac.graph_layer_collection()
        weights = v1.get_variable("w", initializer=np.eye(1, 2, dtype=np.float32))
        logits = tf.matmul(features, weights)
        layers.register_fully_connected(weights, features, logits)
        layers.register_softmax_cross_entropy_loss(logits, name="loss")
        loss = tf.reduce_mean(tf.square(logits))
        optimizer = replicate.TowerOptimizer(make_kfac) if towers else make_kfac()
        train_op = optimizer.minimize(loss, v1.train.get_or_create_global_step())
        return replicate.EstimatorSpec(mode, loss=loss, train_op=train_op)

    build = replicate.replicate_model_fn(model_fn, devices=TOWERS) if towers else model_fn
    with v1.device(v1.train.replica_device_setter(2, worker_device="/job:worker/task:1")):
        build(tf.zeros([4, 1]), None, replicate.ModeKeys.TRAIN)
    (step,) = v1.local_variables()
    assert step.op.name.endswith("sync_rep_local_step")
    assert step.device == "/job:worker/task:1"
    assert all("/job:ps" in variable.device for variable in v1.global_variables())


def test_local_step_of_clones_is_on_the_worker(graph):
    def model():
        weight = v1.get_variable("w", initializer=1.0)
        v1.get_local_variable("own", [])
        v1.losses.add_loss(weight * weight)

    config = model_deploy.DeploymentConfig(2, True, replica_id=1, num_replicas=2, num_ps_tasks=1)
    sync = v1.train.SyncReplicasOptimizer(descent(), 1, 1)
    model_deploy.deploy(config, model, optimizer=sync)
    assert len(v1.local_variables()) == 2
    assert {variable.device for variable in v1.local_variables()} == {"/job:worker/device:CPU:0"}
