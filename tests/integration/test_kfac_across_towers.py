"""One K-FAC optimizer for all towers: what it builds, and where, and what it refuses."""

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
SHAPES = {"hidden": [3, 4], "logits": [4, 2]}


def forward(x, layers=None, only=tuple(SHAPES), **how):
    """Logits of two dense layers; registers those that are named."""
    for seed, (name, shape) in enumerate(SHAPES.items()):
        start = np.random.RandomState(seed).randn(*shape).astype("float32")
        with v1.variable_scope(name):
            w = v1.get_variable("w", initializer=start)
            b = v1.get_variable("b", initializer=np.zeros(shape[1], "float32"))
        s = x @ w + b
        if layers and name in only:
            layers.register_fully_connected((w, b), x, s, **how)
        x = tf.tanh(s)
    return s


def mean_loss(logits, labels):
    return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits))


def loss_fn(batch):
    return mean_loss(forward(batch[0]), batch[1])


def make(layers, **kwargs):
    return kfac.PeriodicInvCovUpdateKfacOpt(
        layer_collection=layers,
        learning_rate=0.1,
        damping=0.1,
        invert_every=2,
        estimation_mode="empirical",
        **kwargs,
    )


def make_adapting(layers):
    return make(layers, adapt_damping=True, damping_adaptation_interval=2, loss_fn=loss_fn)


def register(features, labels, layers, name="loss", **how):
    """Registers a tower; returns its loss."""
    logits = forward(features, layers, **how)
    reuse = {key: how[key] for key in how if key == "reuse"}
    layers.register_categorical_predictive_distribution(logits, targets=labels, name=name, **reuse)
    return mean_loss(logits, labels)


def minimize(loss, optimizer, **settings):
    if not isinstance(optimizer, v1.train.Optimizer):
        optimizer = replicate.TowerOptimizer(optimizer, **settings)
    return optimizer.minimize(loss, v1.train.get_or_create_global_step())


def default_model(features, labels, mode):
    """A model that is replicated as it should be."""
    layers = kfac.graph_layer_collection()
    loss = register(features, labels, layers)
    if mode == "train":
        train_op = minimize(loss, lambda: make(layers))
        return replicate.EstimatorSpec(mode, loss=loss, train_op=train_op)
    return replicate.EstimatorSpec(mode, loss=loss, predictions={"x": features})


def adapting_model(features, labels, mode, params):
    """The same with a damping that adapts; params are settings of TowerOptimizer."""
    layers = kfac.graph_layer_collection()
    loss = register(features, labels, layers)
    optimizer = replicate.TowerOptimizer(lambda: make_adapting(layers), **params)
    optimizer.wrapped.add_tower_batch((features, labels))
    train_op = optimizer.minimize(loss, v1.train.get_or_create_global_step())
    return replicate.EstimatorSpec(mode, loss=loss, train_op=train_op)


def build(model_fn, towers, mode="train", params=None):
    devices = [f"/cpu:{tower}" for tower in range(towers)]
    replicated = replicate.replicate_model_fn(model_fn, devices=devices)
    return replicated(tf.constant(X), tf.constant(Y), mode, params=params)


def values(session):
    return session.run({v.op.name: v for v in v1.global_variables()})


def run(train_op, steps=6, restore=None, save=None):
    """Trains; returns the values of all variables before and after each step."""
    saver = v1.train.Saver()
    with v1.Session() as session:
        session.run(v1.global_variables_initializer())
        if restore:
            saver.restore(session, restore)
        seen = [values(session)]
        for _ in range(steps):
            session.run(train_op)
            seen.append(values(session))
        if save:
            saver.save(session, save)
        return seen


def assert_close(found, expected):
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        np.testing.assert_allclose(found[name], value, rtol=1e-4, atol=1e-5, err_msg=name)


@functools.cache
def one_tower():
    """The values of all variables before and after each step of one tower."""
    with tf.Graph().as_default():
        return run(build(default_model, 1).train_op)


# What is built, and where.


def test_moving_from_two_to_three_towers_keeps_every_factor(tmp_path):
    path = str(tmp_path / "model.ckpt")
    with tf.Graph().as_default():
        *_, saved = run(build(default_model, 2).train_op, 3, save=path)
    with tf.Graph().as_default():
        restored, *_, after = run(build(default_model, 3).train_op, 3, restore=path)
    assert {"kfac/hidden/w/input/cov", "kfac/logits/w/output/inverse"} <= set(saved)
    assert saved.keys() == restored.keys()
    for name, value in saved.items():
        np.testing.assert_array_equal(restored[name], value, err_msg=name)
    assert_close(saved, one_tower()[3])
    assert_close(after, one_tower()[6])


def test_nothing_of_kfac_where_there_is_no_training(tmp_path):
    path = str(tmp_path / "model.ckpt")
    with tf.Graph().as_default():
        *_, trained = run(build(default_model, 2).train_op, 1, save=path)
    for mode in ("eval", "infer"):
        with tf.Graph().as_default() as graph:
            build(default_model, 2, mode)
            assert not [op.name for op in graph.get_operations() if "kfac" in op.name.lower()]
            assert not kfac.graph_layer_collection().is_final
            with v1.Session() as session:
                v1.train.Saver().restore(session, path)
                found = values(session)
        assert sorted(found) == ["hidden/b", "hidden/w", "logits/b", "logits/w"]
        for name, value in found.items():
            np.testing.assert_array_equal(value, trained[name], err_msg=name)


def test_inverses_are_spread_over_the_devices_of_all_towers():
    with tf.Graph().as_default() as graph:
        build(default_model, 4)
        definition = graph.as_graph_def()
        variables = {v.op.name: v.device for v in v1.global_variables()}
    everywhere = {f"/device:CPU:{tower}" for tower in range(4)}
    found = {node.device for node in definition.node if "damped_function" in node.name}
    assert found == everywhere, "there are four factors, and four devices"
    for suffix in ("/cov", "/inverse"):
        assert {d for name, d in variables.items() if name.endswith(suffix)} == everywhere
    # The backward pass of the statistics: one loss per tower, on the tower's device.
    update = [
        n for n in definition.node if n.name.startswith("KFAC/fisher/") and n.op == "TanhGrad"
    ]
    assert sorted(n.device for n in update) == sorted(everywhere)


def test_deploy_trains_as_one_tower():
    with tf.Graph().as_default():
        shards = iter(zip(np.split(X, 3), np.split(Y, 3), strict=True))

        def model():
            features, labels = map(tf.constant, next(shards))
            v1.losses.add_loss(register(features, labels, kfac.graph_layer_collection()))

        config = model_deploy.DeploymentConfig(num_clones=3, clone_on_cpu=True)
        optimizer = make(kfac.graph_layer_collection())
        deployed = model_deploy.deploy(config, model, optimizer=optimizer)
        assert_close(run(deployed.train_op)[-1], one_tower()[6])


def test_scaled_losses_of_towers_adapt_the_damping_alike():
    found = []
    for params in ({}, {"loss_scale": replicate.DynamicLossScale(64.0)}):
        with tf.Graph().as_default():
            found.append(run(build(adapting_model, 2, params=params).train_op)[-1])
    plain, scaled = found
    assert scaled.pop("loss_scale/factor") == 64.0
    assert scaled.pop("loss_scale/good_steps") == 6
    assert scaled.pop("loss_scale/skipped_steps") == 0
    assert np.isfinite(plain["kfac/rho"])
    assert_close(scaled, plain)


# What is refused.


def own_collection(features, labels, tower):
    layers = kfac.LayerCollection(name="own")
    return minimize(register(features, labels, layers), lambda: make(layers))


def own_collection_for_losses(features, labels, tower):
    layers = kfac.LayerCollection(name="own")
    loss = register(features, labels, layers, only=())
    layers.auto_register_layers()
    return minimize(loss, lambda: make(layers))


def own_collection_whatever_is_there(features, labels, tower):
    layers = kfac.LayerCollection(name="own")
    loss = register(features, labels, layers, reuse=v1.AUTO_REUSE)
    return minimize(loss, lambda: make(layers))


def early(what):
    def train(features, labels, tower):
        layers = kfac.graph_layer_collection()
        optimizer = replicate.TowerOptimizer(lambda: make(layers))
        loss = register(features, labels, layers)
        what(optimizer.wrapped)
        return minimize(loss, optimizer)

    return train


def other_layers(features, labels, tower):
    layers = kfac.graph_layer_collection()
    only = ["logits"] if tower else list(SHAPES)
    return minimize(register(features, labels, layers, only=only), lambda: make(layers))


def more_layers(features, labels, tower):
    layers = kfac.graph_layer_collection()
    only = list(SHAPES) if tower else ["logits"]
    return minimize(register(features, labels, layers, only=only), lambda: make(layers))


def other_losses(features, labels, tower):
    layers = kfac.graph_layer_collection()
    loss = register(features, labels, layers)
    if not tower:
        layers.register_squared_error_loss(features, name="extra")
    return minimize(loss, lambda: make(layers))


def loss_without_name(features, labels, tower):
    layers = kfac.graph_layer_collection()
    return minimize(register(features, labels, layers, name=None), lambda: make(layers))


def optimizer_per_tower(features, labels, tower):
    layers = kfac.graph_layer_collection()
    return minimize(register(features, labels, layers), make(layers))


def adapting_optimizer_per_tower(features, labels, tower):
    layers = kfac.graph_layer_collection()
    loss = register(features, labels, layers)
    optimizer = make_adapting(layers)
    optimizer.add_tower_batch((features, labels))
    return minimize(loss, replicate.TowerOptimizer(optimizer))


def batch_of_one_tower(features, labels, tower):
    layers = kfac.graph_layer_collection()
    loss = register(features, labels, layers)
    optimizer = replicate.TowerOptimizer(lambda: make_adapting(layers))
    if not tower:
        optimizer.wrapped.add_tower_batch((features, labels))
    return minimize(loss, optimizer)


OWN = r"none \(if each tower makes a LayerCollection of its own, use kfac\.graph_layer_collection"
FINALIZED = (
    r"Cannot register layer 'hidden/w': default is finalized.*in all towers.*"
    r"replicate\.TowerOptimizer.*in the last tower only"
)


@pytest.mark.parametrize(
    ("train", "message"),
    [
        (own_collection, rf"add a tower to layer 'hidden/w' of own.*Registered are: {OWN}"),
        (own_collection_for_losses, rf"add a tower to loss 'loss'.*Registered are: {OWN}"),
        (own_collection_whatever_is_there, r"with layer collection own:.*graph_layer_collection"),
        (early(lambda optimizer: optimizer.factors), FINALIZED),
        (early(lambda optimizer: optimizer.make_vars_and_create_op_thunks()), FINALIZED),
        (early(lambda optimizer: optimizer.kfac_update_ops()), FINALIZED),
        (early(lambda optimizer: optimizer.layers.finalize()), FINALIZED),
        (other_layers, r"there are 2 towers, but .* by fewer: layer 'hidden/w' by 1\. Every"),
        (more_layers, r"to layer 'hidden/w' of default.*Registered are: \(logits/w, logits/b\)"),
        (other_losses, r"there are 2 towers, but .* by fewer: loss 'extra' by 1\. Every tower"),
        (loss_without_name, r"the loss has no name.*Pass name=\.\.\., the same in all towers"),
        (optimizer_per_tower, FINALIZED),
        (adapting_optimizer_per_tower, r"not given the loss of tower 0, of 2 .*TowerOptimizer"),
        (batch_of_one_tower, r"add_tower_batch was called 1 times, with 2 towers"),
    ],
)
def test_misuse_is_one_clear_error(train, message):
    def model_fn(features, labels, mode):
        train_op = train(features, labels, replicate.current_tower().index)
        return replicate.EstimatorSpec(mode, loss=tf.zeros([]), train_op=train_op)

    with tf.Graph().as_default(), pytest.raises((ValueError, KeyError), match=message):
        build(model_fn, 2)
