"""One K-FAC optimizer for all towers, or inside what wraps optimizers: it trains as on one tower.

What it builds, and where, and what it refuses.
"""

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
        damping=0.1,
        estimation_mode="empirical",
        **{"learning_rate": 0.1, "invert_every": 2, **kwargs},
    )


def make_adapting(layers, **kwargs):
    """K-FAC with a damping that adapts, and a rate and a momentum that it chooses."""
    settings = {
        "learning_rate": None,
        "momentum": None,
        "momentum_type": "qmodel",
        "invert_every": 1,
        "adapt_damping": True,
        "damping_adaptation_interval": 2,
        "damping_adaptation_decay": 0.5,
        "loss_fn": loss_fn,
    }
    return make(layers, **settings | kwargs)


def register(features, labels, layers, name="loss", **how):
    """Registers a tower; returns its loss."""
    logits = forward(features, layers, **how)
    reuse = {key: how[key] for key in how if key == "reuse"}
    layers.register_categorical_predictive_distribution(logits, targets=labels, name=name, **reuse)
    return mean_loss(logits, labels)


def minimize(loss, optimizer):
    """Minimizes by an optimizer, or a TowerOptimizer of a function that makes one."""
    if not isinstance(optimizer, v1.train.Optimizer):
        optimizer = replicate.TowerOptimizer(optimizer)
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
    """The same with a damping that adapts; params are settings of the optimizers."""
    layers = kfac.graph_layer_collection()
    loss = register(features, labels, layers)
    settings = {"loss_fn": params.get("loss_fn", loss_fn)}
    scale = {key: value for key, value in params.items() if key == "loss_scale"}
    optimizer = replicate.TowerOptimizer(lambda: make_adapting(layers, **settings), **scale)
    if settings["loss_fn"]:
        optimizer.wrapped.add_tower_batch((features, labels))
    return replicate.EstimatorSpec(mode, loss=loss, train_op=minimize(loss, optimizer))


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


def packed_model(features, labels, mode):
    """The default model with packed averages, and inverses in bfloat16."""
    config = kfac.CurvatureConfig(factor_storage="packed", inverse_dtype="bfloat16")
    layers = kfac.graph_layer_collection(config=config)
    loss = register(features, labels, layers)
    return replicate.EstimatorSpec(mode, loss=loss, train_op=minimize(loss, lambda: make(layers)))


def test_packed_storage_of_two_towers_goes_on_exactly_and_equals_that_of_one(tmp_path):
    """Between two updates of the inverses. Of two towers they differ by rounding to 8 bits."""
    path = str(tmp_path / "model.ckpt")
    with tf.Graph().as_default():
        one = run(build(packed_model, 1).train_op)
    with tf.Graph().as_default():
        train_op = build(packed_model, 2).train_op
        straight = run(train_op)
        run(train_op, 3, save=path)
        restored, *_, resumed = run(train_op, 3, restore=path)
    kept = [straight[6][f"kfac/hidden/w/input/{leaf}"] for leaf in ("cov", "inverse")]
    assert (kept[0].shape, kept[1].dtype) == ((2, 5), tf.bfloat16.as_numpy_dtype)
    for found, expected in ((restored, straight[3]), (resumed, straight[6])):
        assert found.keys() == expected.keys()
        for name, value in expected.items():
            np.testing.assert_array_equal(found[name], value, err_msg=name)
    assert np.abs(one[6]["hidden/w"] - one[0]["hidden/w"]).max() > 0.01
    for name in ("hidden/w", "logits/w", "kfac/hidden/w/input/cov"):
        np.testing.assert_allclose(straight[6][name], one[6][name], atol=2e-3, err_msg=name)


def preconditioned_model(features, labels, mode):
    """A model one layer of which has curvature, before the step of Adam."""
    layers = kfac.graph_layer_collection()
    loss = register(features, labels, layers, only=("hidden",))
    settings = {"damping": 0.1, "estimation_mode": "empirical", "invert_every": 2}
    train_op = minimize(
        loss, lambda: kfac.precondition(v1.train.AdamOptimizer(0.05), graft="adam", **settings)
    )
    return replicate.EstimatorSpec(mode, loss=loss, train_op=train_op)


def test_two_towers_precondition_for_adam_as_one():
    found = []
    for towers in (1, 2):
        with tf.Graph().as_default():
            found.append(run(build(preconditioned_model, towers).train_op, 5)[-1])
    assert found[0].keys() == found[1].keys()
    for name, value in found[0].items():
        np.testing.assert_allclose(value, found[1][name], rtol=1e-6, atol=2e-6, err_msg=name)


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
    leaves = [(node.name.rpartition("/")[2], node.device) for node in definition.node]
    inversions = "refresh", "damped_function"
    found = {device for leaf, device in leaves if leaf.startswith(inversions)}
    assert found == everywhere, "there are four factors, and four devices"
    for suffix in ("/cov", "/inverse"):
        assert {d for name, d in variables.items() if name.endswith(suffix)} == everywhere
    # The backward pass of the statistics: one loss per tower, on the tower's device.
    update = [
        n for n in definition.node if n.name.startswith("KFAC/fisher/") and n.op == "TanhGrad"
    ]
    assert sorted(n.device for n in update) == sorted(everywhere)


@functools.cache
def one_adapting_tower():
    with tf.Graph().as_default():
        batch = tf.constant(X), tf.constant(Y)
        with v1.variable_scope(v1.get_variable_scope(), reuse=v1.AUTO_REUSE):
            loss = register(*batch, kfac.graph_layer_collection())
        optimizer = make_adapting(kfac.graph_layer_collection())
        optimizer.add_tower_batch(batch)
        return run(minimize(loss, optimizer), 8)[-1]


def assert_adapted(found):
    expected = one_adapting_tower()
    assert expected["kfac/counter"] == 8
    assert expected["kfac/damping"] != pytest.approx(0.1)
    assert np.isfinite(expected["kfac/rho"])
    assert_close(found, expected)


@pytest.mark.parametrize(
    "params",
    [
        {},
        {"loss_fn": None},
        pytest.param({"loss_scale": replicate.DynamicLossScale(64.0)}, marks=pytest.mark.broad),
    ],
    ids=["loss_fn", "loss of the graph", "loss scale"],
)
def test_damping_of_towers_adapts_as_that_of_one(params):
    with tf.Graph().as_default():
        found = run(build(adapting_model, 2, params=params).train_op, 8)[-1]
    if "loss_scale" in params:
        assert found.pop("loss_scale/factor") == 64.0
        assert found.pop("loss_scale/good_steps") == 8
        assert found.pop("loss_scale/skipped_steps") == 0
    assert_adapted(found)


def test_damping_of_deployed_clones_adapts_as_that_of_one_tower():
    with tf.Graph().as_default():
        layers = kfac.graph_layer_collection()
        shards = iter(zip(np.split(X, 2), np.split(Y, 2), strict=True))
        optimizer = make_adapting(layers)

        def model():
            batch = tuple(map(tf.constant, next(shards)))
            v1.losses.add_loss(register(*batch, layers))
            optimizer.add_tower_batch(batch)

        config = model_deploy.DeploymentConfig(num_clones=2, clone_on_cpu=True)
        deployed = model_deploy.deploy(config, model, optimizer=optimizer)
        assert_adapted(run(deployed.train_op, 8)[-1])


@pytest.mark.parametrize("use_resource", [True, pytest.param(False, marks=pytest.mark.broad)])
def test_damping_adapts_inside_sync_replicas(use_resource):
    with tf.Graph().as_default():
        batch = tf.constant(X), tf.constant(Y)
        with v1.variable_scope("", use_resource=use_resource, reuse=v1.AUTO_REUSE):
            layers = kfac.graph_layer_collection()
            loss = register(*batch, layers)
            step = v1.train.get_or_create_global_step()
            optimizer = make_adapting(
                layers,
                train_batch=batch,
                prev_train_batch=batch,
                update_damping_immediately=use_resource,
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


# What is refused.


def own_collection(automatic=False, **how):
    """Each tower has a LayerCollection of its own."""

    def train(features, labels, tower):
        layers = kfac.LayerCollection(name="own")
        loss = register(features, labels, layers, **how)
        if automatic:
            layers.auto_register_layers()
        return minimize(loss, lambda: make(layers))

    return train


def shared_collection(only=(tuple(SHAPES), tuple(SHAPES)), **how):
    """The collection of the graph, in which each of two towers registers some layers."""

    def train(features, labels, tower):
        layers = kfac.graph_layer_collection()
        loss = register(features, labels, layers, only=only[tower], **how)
        return minimize(loss, lambda: make(layers))

    return train


def early(what):
    def train(features, labels, tower):
        layers = kfac.graph_layer_collection()
        optimizer = replicate.TowerOptimizer(lambda: make(layers))
        loss = register(features, labels, layers)
        what(optimizer.wrapped)
        return minimize(loss, optimizer)

    return train


def other_losses(features, labels, tower):
    layers = kfac.graph_layer_collection()
    loss = register(features, labels, layers)
    if not tower:
        layers.register_squared_error_loss(features, name="extra")
    return minimize(loss, lambda: make(layers))


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
        (own_collection(), rf"add a tower to layer 'hidden/w' of own.*Registered are: {OWN}"),
        (own_collection(automatic=True, only=()),
         rf"add a tower to loss 'loss'.*Registered are: {OWN}"),
        (own_collection(reuse=v1.AUTO_REUSE),
         r"with layer collection own:.*graph_layer_collection"),
        (early(lambda optimizer: optimizer.factors), FINALIZED),
        (early(lambda optimizer: optimizer.kfac_update_ops()), FINALIZED),
        (shared_collection(only=(list(SHAPES), ["logits"])),
         r"there are 2 towers, but .* by fewer: layer 'hidden/w' by 1\. Every"),
        (shared_collection(only=(["logits"], list(SHAPES))),
         r"to layer 'hidden/w' of default.*Registered are: \(logits/w, logits/b\)"),
        (other_losses, r"there are 2 towers, but .* by fewer: loss 'extra' by 1\. Every tower"),
        (shared_collection(name=None),
         r"the loss has no name.*Pass name=\.\.\., the same in all towers"),
        (optimizer_per_tower, FINALIZED),
        (adapting_optimizer_per_tower, r"not given the loss of tower 0, of 2 .*TowerOptimizer"),
        (batch_of_one_tower, r"add_tower_batch was called 1 times, with 2 towers"),
    ],
)  # fmt: skip
def test_misuse_is_one_clear_error(train, message):
    def model_fn(features, labels, mode):
        train_op = train(features, labels, replicate.current_tower().index)
        return replicate.EstimatorSpec(mode, loss=tf.zeros([]), train_op=train_op)

    with tf.Graph().as_default(), pytest.raises((ValueError, KeyError), match=message):
        build(model_fn, 2)
