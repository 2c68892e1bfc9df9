"""K-FAC with damping that adapts, inside everything that wraps an optimizer."""

import functools

import numpy as np
import pytest
import tensorflow as tf

import kfac
import model_deploy
import replicate

v1 = tf.compat.v1

X = np.random.RandomState(0).randn(24, 3).astype("float32")
Y = (X @ np.array([[1.0, -1], [0.5, 2], [-1, 0.3]])).argmax(1)
START = {n: np.random.RandomState(n).randn(n, 4).astype("float32") for n in (3, 4)}


def forward(x, collection=None):
    """Logits of two dense layers, which are registered if there is a collection."""
    for name in ("hidden", "logits"):
        start = START[x.shape.as_list()[-1]]
        with v1.variable_scope(name):
            w = v1.get_variable("w", initializer=start)
            b = v1.get_variable("b", initializer=np.zeros(4, "float32"))
        s = tf.matmul(x, w) + b
        if collection:
            collection.register_fully_connected((w, b), x, s)
        x = tf.tanh(s)
    return s


def mean_loss(logits, labels):
    return tf.reduce_mean(
        tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
    )


def loss_fn(batch):
    return mean_loss(forward(batch[0]), batch[1])


def registered_loss(features, labels):
    """The loss of a tower, registered with the graph's collection."""
    collection = kfac.graph_layer_collection()
    logits = forward(features, collection)
    collection.register_softmax_cross_entropy_loss(logits, targets=labels, name="loss")
    return mean_loss(logits, labels)


def make_optimizer(momentum_type="qmodel", **kwargs):
    is_given = momentum_type in ("adam", "regular")
    rates = (
        {"learning_rate": 0.1, "momentum": 0.5}
        if is_given
        else dict.fromkeys(("learning_rate", "momentum"))
    )
    return kfac.PeriodicInvCovUpdateKfacOpt(
        layer_collection=kfac.graph_layer_collection(),
        momentum_type=momentum_type,
        damping=0.1,
        invert_every=1,
        estimation_mode="empirical",
        adapt_damping=True,
        damping_adaptation_interval=2,
        damping_adaptation_decay=0.5,
        **rates,
        **{"loss_fn": loss_fn, **kwargs},
    )


def weights_and_health(session):
    """Values of weights, velocities and all that adaptation keeps."""
    variables = [v for v in v1.global_variables() if not v.op.name.endswith(("cov", "inverse"))]
    return session.run({v.op.name: v for v in variables})


def trained(train_op, feed=None, steps=8):
    with v1.Session() as session:
        session.run(v1.global_variables_initializer())
        for _ in range(steps):
            session.run(train_op, feed)
        return weights_and_health(session)


@functools.cache
def one_tower(momentum_type):
    with tf.Graph().as_default():
        batch = tf.constant(X), tf.constant(Y)
        with v1.variable_scope(v1.get_variable_scope(), reuse=v1.AUTO_REUSE):
            loss = registered_loss(*batch)
        optimizer = make_optimizer(momentum_type)
        optimizer.add_tower_batch(batch)
        return trained(optimizer.minimize(loss, v1.train.get_or_create_global_step()))


def assert_alike(found, expected):
    assert found.keys() == expected.keys()
    assert found["kfac/counter"] == 8
    assert found["kfac/damping"] != pytest.approx(0.1)
    for name, value in expected.items():
        np.testing.assert_allclose(found[name], value, rtol=1e-4, atol=5e-6, err_msg=name)


@pytest.mark.parametrize("momentum_type", [pytest.param("adam", marks=pytest.mark.slow), "qmodel"])
def test_tower_optimizer(momentum_type):
    def model_fn(features, labels, mode):
        loss = registered_loss(features, labels)
        optimizer = replicate.TowerOptimizer(lambda: make_optimizer(momentum_type))
        optimizer.wrapped.add_tower_batch((features, labels))
        train_op = optimizer.minimize(loss, v1.train.get_or_create_global_step())
        return replicate.EstimatorSpec(mode, loss=loss, train_op=train_op)

    assert_alike(trained_on_two_towers(model_fn), one_tower(momentum_type))


def test_tower_optimizer_with_the_loss_from_the_graph():
    def model_fn(features, labels, mode):
        loss = registered_loss(features, labels)
        optimizer = replicate.TowerOptimizer(lambda: make_optimizer(loss_fn=None))
        train_op = optimizer.minimize(loss, v1.train.get_or_create_global_step())
        return replicate.EstimatorSpec(mode, loss=loss, train_op=train_op)

    assert_alike(trained_on_two_towers(model_fn), one_tower("qmodel"))


def trained_on_two_towers(model_fn):
    with tf.Graph().as_default():
        devices = [f"/cpu:{index}" for index in range(2)]
        replicated = replicate.replicate_model_fn(model_fn, devices=devices)
        spec = replicated(tf.constant(X), tf.constant(Y), "train")
        return trained(spec.train_op)


def test_optimize_clones():
    expected = one_tower("qmodel")
    with tf.Graph().as_default():
        shards = iter(zip(np.split(X, 2), np.split(Y, 2), strict=True))
        optimizer = make_optimizer("qmodel")

        def model_fn():
            batch = tuple(map(tf.constant, next(shards)))
            v1.losses.add_loss(registered_loss(*batch))
            optimizer.add_tower_batch(batch)

        config = model_deploy.DeploymentConfig(num_clones=2, clone_on_cpu=True)
        clones = model_deploy.create_clones(config, model_fn)
        _, pairs = model_deploy.optimize_clones(clones, optimizer)
        step = v1.train.get_or_create_global_step()
        assert_alike(trained(optimizer.apply_gradients(pairs, step)), expected)


@pytest.mark.parametrize("use_resource", [True, False])
def test_sync_replicas(use_resource):
    with tf.Graph().as_default():
        batch = tf.constant(X), tf.constant(Y)
        with v1.variable_scope("", use_resource=use_resource, reuse=v1.AUTO_REUSE):
            loss = registered_loss(*batch)
            step = v1.train.get_or_create_global_step()
            optimizer = make_optimizer(
                train_batch=batch, prev_train_batch=batch, update_damping_immediately=use_resource
            )
            sync = v1.train.SyncReplicasOptimizer(optimizer, replicas_to_aggregate=1)
            train_op = sync.minimize(loss, step)
        hooks = [replicate.SyncReplicasHook(sync, is_chief=True)]
        damping = optimizer.damping
        with v1.train.MonitoredTrainingSession(hooks=hooks) as session:
            first = session.run(loss)
            while session.run(step) < 8:
                session.run(train_op)
            last, found, counter = session.run([loss, damping, optimizer.counter])
    assert last < first / 2
    assert counter >= 8
    assert found != pytest.approx(0.1)
