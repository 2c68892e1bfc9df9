"""Variables of one worker in a cluster: no other worker shares, changes or resets them."""

import contextlib

import numpy as np
import pytest
import tensorflow as tf

import kfac
import replicate
from model_deploy import DeploymentConfig, deploy
from replicate.estimator.cluster_config import ClusterConfig

v1 = tf.compat.v1

# Closing a session cancels the thread that waits for gradients, which TensorFlow lets show.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")

ROWS = np.array([[1.0], [3.0], [10.0], [20.0]], np.float32)
LIMIT = v1.RunOptions(timeout_in_ms=20_000)


@pytest.fixture
def targets(start_servers):
    """Addresses of two workers, whose parameter server is in this process, too."""
    roles = start_servers(chief=1, worker=1, ps=1)
    return [roles["chief", 0].master, roles["worker", 0].master]


def task_of(index):
    return ["/job:chief/task:0", "/job:worker/task:0"][index]


def gradient_descent():
    return v1.train.GradientDescentOptimizer(0.1)


def synchronous():
    return v1.train.SyncReplicasOptimizer(gradient_descent(), 1, 1)


class Worker:
    """The graph of a worker, whose model has weights and a moving mean of its batches."""

    def __init__(self, index, make_optimizer, towers=2, use_resource=True):
        self.task = task_of(index)
        self.graph = tf.Graph()
        self.use_resource = use_resource
        self.optimizer = replicate.TowerOptimizer(make_optimizer())
        setter = v1.train.replica_device_setter(ps_tasks=1, worker_device=self.task)
        devices = [f"/cpu:{tower}" for tower in range(towers)]
        replicated = replicate.replicate_model_fn(self._model_fn, devices=devices)
        with self.graph.as_default(), v1.device(setter):
            self.step = v1.train.get_or_create_global_step()
            spec = replicated(tf.constant((1 + 9 * index) * ROWS), None, "train")
            self.train_op = spec.train_op
            self.locals = v1.local_variables()
            self.init = v1.global_variables_initializer()
            self.local_init = v1.local_variables_initializer()

    def _model_fn(self, features, labels, mode):
        with v1.variable_scope("model", use_resource=self.use_resource):
            weight = v1.get_variable("weight", initializer=1.0)
            moving = v1.get_variable("moving", initializer=0.0, trainable=False)
        update = v1.assign(moving, 0.5 * moving + 0.5 * tf.reduce_mean(features))
        v1.add_to_collection(v1.GraphKeys.UPDATE_OPS, update)
        loss = tf.reduce_mean(weight * features)
        train_op = self.optimizer.minimize(loss, v1.train.get_global_step())
        return replicate.EstimatorSpec(mode, loss=loss, train_op=train_op)

    def session(self, target):
        options = v1.ConfigProto(allow_soft_placement=False, device_filters=["/job:ps", self.task])
        return v1.Session(target, graph=self.graph, config=options)


@pytest.mark.parametrize("use_resource", [True, False])
def test_step_of_a_worker_leaves_the_copies_of_another(targets, use_resource):
    workers = [Worker(i, gradient_descent, use_resource=use_resource) for i in (0, 1)]
    with contextlib.ExitStack() as stack:
        sessions = [
            stack.enter_context(worker.session(target))
            for worker, target in zip(workers, targets, strict=True)
        ]
        sessions[0].run(workers[0].init)
        for worker, session in zip(workers, sessions, strict=True):
            session.run(worker.local_init)
        sessions[0].run(workers[0].train_op)
        before = sessions[0].run(workers[0].locals)
        sessions[1].run(workers[1].train_op)
        others = sessions[1].run(workers[1].locals)
        np.testing.assert_array_equal(sessions[0].run(workers[0].locals), before)
    assert [variable.device for variable in workers[0].locals] == [f"{task_of(0)}/device:CPU:1"]
    assert before == [0.5 * ROWS.mean()]
    assert others == [0.25 * before[0] + 5 * ROWS.mean()]


@pytest.mark.parametrize("towers", [1, 2])
def test_training_goes_on_while_a_surplus_worker_restarts(targets, towers):
    """Were its local step that of all, set to 0, it would make the gradients of others stale."""
    chief, surplus = (Worker(i, synchronous, towers) for i in (0, 1))
    sync = chief.optimizer.wrapped
    with chief.session(targets[0]) as session:
        session.run(chief.init)
        session.run(chief.local_init)
        session.run(sync.chief_init_op)
        coord = v1.train.Coordinator()
        sync.get_chief_queue_runner().create_threads(session, coord, daemon=True, start=True)
        for _ in range(5):
            session.run(chief.train_op, options=LIMIT)
            with surplus.session(targets[1]) as restarted:
                restarted.run(surplus.local_init)
        assert session.run(chief.step) == 5
        coord.request_stop()


class BuiltError(Exception):
    """The model has been built, and need not be trained."""


def test_every_local_variable_of_an_estimator_stays_on_its_worker(tmp_path):
    made = []

    def model_fn(features, labels, mode):
        v1.get_local_variable("own", [])
        weight = v1.get_variable("weight", initializer=1.0)
        v1.metrics.mean(weight)
        step = v1.train.get_global_step()
        synchronous().minimize(weight * tf.reduce_mean(features), step)
        made.extend([*v1.local_variables(), weight])
        raise BuiltError

    jobs = {"chief": ("a:1",), "worker": ("a:2",), "ps": ("a:3",)}
    config = replicate.RunConfig(cluster=ClusterConfig(jobs, "worker", 0))
    with pytest.raises(BuiltError):
        replicate.Estimator(model_fn, str(tmp_path), config).train(lambda: tf.constant(ROWS))
    *own, weight = made
    assert len(own) == 4
    assert {variable.device for variable in own} == {"/job:worker/task:0"}
    assert weight.device.startswith("/job:ps")


def registered_loss():
    layers = kfac.graph_layer_collection()
    weights = v1.get_variable("w", initializer=np.eye(1, 2, dtype=np.float32))
    logits = tf.matmul(ROWS, weights)
    layers.register_fully_connected(weights, tf.constant(ROWS), logits)
    layers.register_softmax_cross_entropy_loss(logits, name="loss")
    return tf.reduce_mean(tf.square(logits))


def make_kfac():
    return kfac.ClusterKfacOpt(
        kfac.WorkerRole("shared", num_workers=2, task_index=1),
        layer_collection=kfac.graph_layer_collection(),
        learning_rate=0.1,
        damping=0.1,
    )


@pytest.mark.parametrize("towers", [0, 1, 2])
def test_only_the_local_step_of_kfac_is_on_the_worker(graph, towers):
    def model_fn(features, labels, mode):
        loss = registered_loss()
        optimizer = replicate.TowerOptimizer(make_kfac) if towers else make_kfac()
        train_op = optimizer.minimize(loss, v1.train.get_or_create_global_step())
        return replicate.EstimatorSpec(mode, loss=loss, train_op=train_op)

    build = model_fn
    if towers:
        devices = [f"/cpu:{tower}" for tower in range(towers)]
        build = replicate.replicate_model_fn(model_fn, devices=devices)
    setter = v1.train.replica_device_setter(ps_tasks=2, worker_device="/job:worker/task:1")
    with v1.device(setter):
        build(tf.zeros([2, 1]), None, replicate.ModeKeys.TRAIN)
    (step,) = v1.local_variables()
    assert step.op.name.endswith("sync_rep_local_step")
    assert step.device == "/job:worker/task:1"
    assert all("/job:ps" in variable.device for variable in v1.global_variables())


def test_local_step_of_clones_is_on_the_worker(graph):
    def model():
        weight = v1.get_variable("w", initializer=1.0)
        v1.get_local_variable("own", [])
        v1.losses.add_loss(weight * weight)

    config = DeploymentConfig(2, True, replica_id=1, num_replicas=2, num_ps_tasks=1)
    deploy(config, model, optimizer=synchronous())
    assert len(v1.local_variables()) == 2
    assert {variable.device for variable in v1.local_variables()} == {"/job:worker/device:CPU:0"}
