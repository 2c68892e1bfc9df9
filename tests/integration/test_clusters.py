"""Clusters whose servers are all in this process: synchronous training equals that of one process.

Each worker is a thread with a graph and a session of its own; the parameters are on a server.
"""

import os
import signal
import threading

import numpy as np
import pytest
import tensorflow as tf

import kfac
import model_deploy
import replicate

v1 = tf.compat.v1

ROWS, STEPS = 8, 12
X = np.random.RandomState(0).randn(ROWS, 5).astype(np.float32)
Y = (X @ np.arange(1, 6) + 0.1).astype(np.float32)[:, None]
TOWERS = ["/cpu:0", "/cpu:1"]


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


def one_process(tmp_path):
    """The variables after training on the whole batch."""

    def model_fn(features, labels, mode):
        loss = loss_of(features, labels)
        train_op = momentum().minimize(loss, v1.train.get_global_step())
        return replicate.EstimatorSpec(mode, loss=loss, train_op=train_op)

    estimator = replicate.Estimator(model_fn, f"{tmp_path}/one", quiet())
    estimator.train(lambda: tf.data.Dataset.from_tensors((X, Y)).repeat(), max_steps=STEPS)
    return values(estimator)


def quiet(**settings):
    return replicate.RunConfig(progress="off", save_checkpoints_steps=1000, **settings)


def values(estimator):
    return {name: estimator.get_variable_value(name) for name in estimator.get_variable_names()}


def in_threads(functions, seconds=60):
    """Calls functions side by side; raises what one of them raises."""
    errors = []

    def call(function):
        try:
            function()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=call, args=(each,), daemon=True) for each in functions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(seconds)
    if errors:
        raise errors[0]
    assert not any(thread.is_alive() for thread in threads)


def assert_close(found, expected, tolerance=2e-6):
    """Compares to a share of each variable's largest value: workers add up as they come."""
    for name, value in expected.items():
        atol = tolerance * max(1.0, np.abs(value).max())
        np.testing.assert_allclose(found[name], value, rtol=0, atol=atol, err_msg=name)


def own_rows(config):
    """The part of the batch that a worker trains on."""
    half = config.global_id_in_cluster
    return X[half::2], Y[half::2]


def test_synchronous_workers_with_two_towers_equal_one_process(start_servers, tmp_path):
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

    def train(role):
        replicated = replicate.replicate_model_fn(model_fn, devices=TOWERS)
        estimator = replicate.Estimator(replicated, f"{tmp_path}/many", quiet(cluster=role))
        estimator.train(
            lambda config: tf.data.Dataset.from_tensors(own_rows(config)).repeat(),
            max_steps=STEPS,
        )

    roles = start_servers(chief=1, worker=1, ps=1)
    workers = [roles["chief", 0], roles["worker", 0]]
    in_threads([lambda role=role: train(role) for role in workers])
    found = replicate.Estimator(model_fn, f"{tmp_path}/many", quiet())
    assert_close(values(found), one_process(tmp_path))
    assert {device for device, _ in seen} == {
        f"/job:{job}/task:0/device:CPU:{tower}" for job in ("chief", "worker") for tower in (0, 1)
    }
    assert all(device.startswith("/job:ps") for _, on in seen for device in on)


def test_deployment_config_of_a_cluster_equals_one_process(start_servers, tmp_path):
    """Two replicas with two clones each and a parameter server, in sessions of their own."""
    roles = start_servers(worker=2, ps=1)
    found = {}
    variables_have_values = threading.Event()

    def replica(index):
        config = model_deploy.DeploymentConfig(
            num_clones=2, clone_on_cpu=True, replica_id=index, num_replicas=2, num_ps_tasks=1
        )
        master = roles["worker", index].master
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
            creator = kind(v1.train.Scaffold(), master, options)
            # A worker that looks too early looks again after 30 seconds.
            assert index == 0 or variables_have_values.wait(60)
            with v1.train.MonitoredSession(creator, [hook]) as session:
                variables_have_values.set()
                while not session.should_stop() and session.run(step) < STEPS:
                    session.run(train_op)
                if index == 0:
                    variables = v1.trainable_variables()
                    names = [variable.op.name for variable in variables]
                    found.update(zip(names, session.run(variables), strict=True))
                    assert session.run(step) == STEPS

    in_threads([lambda: replica(0), lambda: replica(1)])
    expected = one_process(tmp_path)
    assert_close(found, {name: expected[name] for name in found})
    assert len(found) == 2


@pytest.mark.parametrize("replicas_to_aggregate", [2, pytest.param(1, marks=pytest.mark.slow)])
def test_kfac_in_synchronous_training_learns_and_ends(
    start_servers, tmp_path, replicas_to_aggregate
):
    """With fewer gradients than workers, the others are backup workers."""
    rows = np.random.RandomState(1).randn(40, 3).astype(np.float32)
    truth = np.array([[1.0], [-2.0], [3.0]], np.float32)

    def model_fn(features, labels, mode, config):
        weights = v1.get_variable("w", [3, 1], initializer=v1.zeros_initializer())
        outputs = tf.matmul(features, weights)
        loss = tf.reduce_mean(tf.square(outputs - labels))
        layers = kfac.graph_layer_collection()
        layers.register_fully_connected(weights, features, outputs)
        layers.register_normal_predictive_distribution(outputs, name="outputs")
        optimizer = replicate.TowerOptimizer(
            lambda: v1.train.SyncReplicasOptimizer(
                kfac.PeriodicInvCovUpdateKfacOpt(
                    learning_rate=0.2, damping=0.1, layer_collection=layers, momentum=0.5
                ),
                replicas_to_aggregate,
                total_num_replicas=2,
            )
        )
        train_op = optimizer.minimize(loss, v1.train.get_global_step())
        hook = optimizer.wrapped.make_session_run_hook(config.is_chief)
        return replicate.EstimatorSpec(mode, loss=loss, train_op=train_op, training_hooks=[hook])

    def train(role):
        replicated = replicate.replicate_model_fn(model_fn, devices=TOWERS)
        estimator = replicate.Estimator(replicated, str(tmp_path), quiet(cluster=role))
        estimator.train(
            lambda: tf.data.Dataset.from_tensors((rows, rows @ truth)).repeat(), max_steps=24
        )

    roles = start_servers(chief=1, worker=1, ps=1)
    workers = [roles["chief", 0], roles["worker", 0]]
    in_threads([lambda role=role: train(role) for role in workers])
    estimator = replicate.Estimator(model_fn, str(tmp_path), quiet())
    # A backup worker that has not seen the last step yet can make one more, all by itself.
    more = estimator.get_variable_value("global_step") - 24
    assert 0 <= more <= 2 - replicas_to_aggregate
    np.testing.assert_allclose(estimator.get_variable_value("w"), truth, atol=0.2)


def test_signal_ends_a_chief_that_waits_for_a_worker(start_servers, tmp_path):
    role = start_servers(chief=1, worker=1, ps=1)["chief", 0]
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
    estimator = replicate.Estimator(model_fn, str(tmp_path), quiet(cluster=role))
    with pytest.raises(replicate.TrainingInterrupted) as ended:
        estimator.train(
            lambda: tf.data.Dataset.from_tensors((X, Y)).repeat(), max_steps=5, hooks=[Started()]
        )
    sender.join()
    assert (ended.value.code, ended.value.step) == (143, 0)
