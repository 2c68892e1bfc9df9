import contextlib
import inspect
import re

import numpy as np
import pytest
import tensorflow as tf

import kfac

v1 = tf.compat.v1

SETTINGS = {"learning_rate": 0.2, "damping": 0.3, "estimation_mode": "empirical"}


# An independent K-FAC in NumPy, for the network of conftest.py.


def patches_of(images):
    """Patches [n, 16, 18] of 3x3 windows with zeros around [n, 4, 4, 2]."""
    padded = np.pad(images, [(0, 0), (1, 1), (1, 1), (0, 0)])
    windows = [padded[:, i : i + 3, j : j + 3].reshape(-1, 18) for i in range(4) for j in range(4)]
    return np.stack(windows, axis=1)


def with_ones(rows):
    return np.concatenate([rows, np.ones([*rows.shape[:-1], 1])], axis=-1)


def backpropagate(weights, images, labels):
    """Gradients of the mean loss, and (A, G, locations), for both layers as matrices."""
    n = len(images)
    p = with_ones(patches_of(images))
    s = p @ weights["conv"]
    a = with_ones(np.maximum(s, 0).reshape(n, 64))
    z = a @ weights["fc"]
    e = np.exp(z - z.max(1, keepdims=True))
    gz = e / e.sum(1, keepdims=True) - np.eye(3)[labels]
    gs = (gz @ weights["fc"][:-1].T).reshape(n, 16, 4) * (s > 0)
    gradients = {"conv": np.einsum("nti,nto->io", p, gs) / n, "fc": a.T @ gz / n}
    p, gs = p.reshape(-1, 19), gs.reshape(-1, 4)
    factors = {
        "conv": (p.T @ p / (16 * n), gs.T @ gs / (16 * n), 16),
        "fc": (a.T @ a / n, gz.T @ gz / n, 1),
    }
    return gradients, factors


def precondition(averages, gradients, damping):
    products = {}
    for layer, (a, g, locations) in averages.items():
        pi = np.sqrt((np.trace(a) / len(a)) / (np.trace(g) / len(g)))
        root = np.sqrt(damping / locations)
        left = np.linalg.inv(a + pi * root * np.eye(len(a)))
        right = np.linalg.inv(g + root / pi * np.eye(len(g)))
        products[layer] = left @ gradients[layer] @ right / locations
    return products


def constrain(products, vectors, rate, constraint):
    if constraint is None:
        return products
    inner = sum(np.sum(products[k] * vectors[k]) for k in products)
    factor = min(1.0, np.sqrt(constraint / (rate**2 * inner)))
    return {k: factor * products[k] for k in products}


def train_in_numpy(weights, batches, momentum_type, norm_constraint):
    """Trains with decay 0.9 and momentum 0.8, refreshing everything at every step."""
    rate, damping, beta, decay = 0.2, 0.3, 0.8, 0.9
    sums, total = {}, 0.0
    velocity = {k: np.zeros_like(w) for k, w in weights.items()}
    for images, labels in batches:
        gradients, factors = backpropagate(weights, images, labels)
        total = decay * total + 1
        averages = {}
        for k, (a, g, t) in factors.items():
            old_a, old_g = sums.get(k, (0, 0))
            sums[k] = (decay * old_a + a, decay * old_g + g)
            averages[k] = (sums[k][0] / total, sums[k][1] / total, t)
        if momentum_type == "adam":
            velocity = {k: beta * velocity[k] + gradients[k] for k in weights}
            step = constrain(
                precondition(averages, velocity, damping), velocity, rate, norm_constraint
            )
        else:
            direction = constrain(
                precondition(averages, gradients, damping), gradients, rate, norm_constraint
            )
            velocity = {k: beta * velocity[k] + direction[k] for k in weights}
            step = velocity
        weights = {k: weights[k] - rate * step[k] for k in weights}
    return weights


def as_matrices(values):
    conv_w, conv_b, fc_w, fc_b = values
    return {"conv": np.vstack([conv_w.reshape(18, 4), conv_b]), "fc": np.vstack([fc_w, fc_b])}


@pytest.mark.parametrize("momentum_type", ["adam", "regular"])
def test_training_equals_numpy(build_network, session, batch, momentum_type):
    """Each of the first three updates of a dense and of a convolutional layer.

    Once with a norm constraint, and once with one that no step is longer than.
    """
    network = build_network(1, "float64")
    norm_constraint = v1.placeholder(tf.float64, [])
    optimizer = kfac.PeriodicInvCovUpdateKfacOpt(
        invert_every=1,
        layer_collection=network.collection,
        cov_ema_decay=0.9,
        momentum=0.8,
        momentum_type=momentum_type,
        norm_constraint=norm_constraint,
        **SETTINGS,
    )
    train = optimizer.minimize(network.losses[0])
    random = np.random.RandomState(3)
    batches = [(batch[0] + random.randn(*batch[0].shape) / 9, batch[1]) for _ in range(3)]
    initialize = v1.global_variables_initializer()
    for constraint in (1e9, 1e-3):
        session.run(initialize)
        start = as_matrices(session.run(network.variables))
        for step, (images, labels) in enumerate(batches):
            session.run(train, {**network.feed([images], [labels]), norm_constraint: constraint})
            found = as_matrices(session.run(network.variables))
            expected = train_in_numpy(
                start, batches[: step + 1], momentum_type, constraint if constraint < 1 else None
            )
            for layer in expected:
                change = np.abs(expected[layer] - start[layer]).max()
                assert change > 1e-4
                np.testing.assert_allclose(found[layer], expected[layer], atol=1e-10 * change)


# Behaviour.


def make(network, **kwargs):
    return kfac.KfacOptimizer(layer_collection=network.collection, **{**SETTINGS, **kwargs})


def test_settings_may_be_functions(build_mlp, session, rows, damped_inverses):
    """Called once each; here of the global step."""
    network = build_mlp(dtype="float32", layers=1)
    step = v1.train.get_or_create_global_step()
    calls = []

    def schedule(name, start):
        def of_step():
            calls.append(name)
            return start * 0.5 ** tf.cast(step, tf.float32)

        return of_step

    names = ("learning_rate", "damping", "momentum", "cov_ema_decay", "norm_constraint")
    settings = {name: schedule(name, 0.4) for name in names}
    optimizer = kfac.PeriodicInvCovUpdateKfacOpt(
        invert_every=1,
        layer_collection=network.collection,
        precon_damping_mult=lambda: 2.0,
        estimation_mode="empirical",
        **settings,
    )
    assert calls == []
    train = optimizer.minimize(network.losses[0], step)
    assert sorted(calls) == sorted(names)
    shown = [optimizer.learning_rate, optimizer.damping, optimizer.momentum]
    session.run(v1.global_variables_initializer())
    session.run(train, network.share(rows))
    assert session.run(shown) == [pytest.approx(0.2)] * 3
    a, g = (session.run(factor.cov) for factor in optimizer.factors)
    expected, _ = damped_inverses([a, g], 0.8)
    np.testing.assert_allclose(
        session.run(optimizer.factors[0].inv_variables[0]), expected, rtol=1e-3, atol=1e-5
    )


def test_properties(build_network):
    network = build_network()
    optimizer = make(network, momentum_type="regular", damping_adaptation_interval=7)
    assert (optimizer.learning_rate, optimizer.momentum, optimizer.damping) == (0.2, 0.9, 0.3)
    assert optimizer.damping_adaptation_interval == 7
    assert np.isnan([optimizer.rho, optimizer.qmodel_change]).all()
    assert (optimizer.layers, optimizer.mat_type) == (network.collection, "Empirical_Fisher")
    assert optimizer.registered_variables == tuple(network.variables)
    assert optimizer.variables() == []
    # Other towers may still register, after the gradients of this one.
    optimizer.compute_gradients(network.losses[0])
    assert not network.collection.is_final
    assert len(optimizer.factors) == 4
    assert network.collection.is_final


def test_model_chooses_rate_and_momentum(build_network, session, batch):
    network = build_network()
    settings = {"momentum_type": "qmodel", "learning_rate": None, "momentum": None}
    optimizer = network.periodic(invert_every=1, qmodel_update_rescale=0.5, **settings)
    train = network.start(session, optimizer)
    shown = [optimizer.learning_rate, optimizer.momentum]
    assert np.isnan(session.run(shown)).all()
    before, losses = session.run(network.variables[0]), []
    for step in range(4):
        session.run(train, network.share(batch))
        losses.append(session.run(network.losses[0], network.share(batch)))
        assert session.run(optimizer.qmodel_change) < 0  # Of every step.
        if step == 0:
            rate, momentum = session.run(shown)
            assert rate > 0
            assert momentum == 0
            slot = session.run(optimizer.get_slot(network.variables[0], "velocity"))
            move = session.run(network.variables[0]) - before
            np.testing.assert_allclose(move, -0.5 * slot, rtol=1e-3, atol=1e-6)
    assert session.run(optimizer.momentum) != 0
    assert sorted(losses, reverse=True) == losses


def test_gradients_are_beside_the_forward_pass_unless_told_otherwise(build_network):
    network, made = build_network(1), []

    class Recorder(kfac.KfacOptimizer):
        def apply_gradients(self, grads_and_vars, global_step=None, name=None):
            made.append({gradient.device for gradient, _ in grads_and_vars})
            return tf.no_op()

    optimizer = Recorder(
        layer_collection=network.collection, colocate_gradients_with_ops=False, **SETTINGS
    )
    forward, elsewhere = network.losses[0].device, "/device:CPU:3"
    with v1.device(elsewhere):
        for given, expected in (
            ({}, forward),
            ({"colocate_gradients_with_ops": True}, forward),
            ({"colocate_gradients_with_ops": False}, elsewhere),
        ):
            pairs = optimizer.compute_gradients(network.losses[0], **given)
            assert {gradient.device for gradient, _ in pairs} == {expected}
            optimizer.minimize(network.losses[0], **given)
            assert made[-1] == {expected}


@pytest.mark.parametrize("method", ["minimize", "compute_gradients"])
def test_arguments_are_in_the_order_of_tensorflow(method):
    ours, theirs = (
        list(inspect.signature(getattr(kind, method)).parameters)
        for kind in (kfac.KfacOptimizer, v1.train.Optimizer)
    )
    assert ours == theirs


def test_resume_is_exact(build_mlp, rows, tmp_path):
    """Three steps, a checkpoint, two steps: the two are the same in a new graph.

    The checkpoint also is all that a graph with more towers needs.
    """

    @contextlib.contextmanager
    def training(towers=1):
        with tf.Graph().as_default(), v1.Session() as session:
            network = build_mlp(towers, layers=1)
            optimizer = kfac.PeriodicInvCovUpdateKfacOpt(
                invert_every=2,
                layer_collection=network.collection,
                **{**SETTINGS, "estimation_mode": "gradients"},
            )
            train = optimizer.apply_gradients(network.mean_gradients(optimizer))
            feed = network.share(rows)
            session.run(v1.global_variables_initializer())
            yield session, v1.train.Saver(), lambda steps: run(session, train, feed, steps)

    def run(session, train, feed, steps):
        for _ in range(steps):
            session.run(train, feed)
        variables = v1.global_variables()
        return dict(zip((v.op.name for v in variables), session.run(variables), strict=True))

    path = str(tmp_path / "model.ckpt")
    with training() as (session, saver, go_on):
        saved = go_on(3)
        saver.save(session, path)
        whole = go_on(2)
    assert saved["kfac/sample_step"] == 3
    for towers, steps, expected in ((1, 2, whole), (2, 0, saved)):
        with training(towers) as (session, saver, go_on):
            saver.restore(session, path)
            found = go_on(steps)
        assert found.keys() == expected.keys()
        for name, value in expected.items():
            np.testing.assert_array_equal(value, found[name], err_msg=name)


def spread_first_inverses(network):
    """Settings by which the first inverses take three steps, for a layer in each of two."""
    del network
    return {"invert_every": 3, "spread_inverses": True, "spread_first_inverses": True}


def burn_in(network):
    """Settings by which three runs only update the averages."""
    del network
    return {"invert_every": 2, "num_burnin_steps": 3}


def judgement_in_the_next_step(network):
    """Settings by which each step is judged by its batch at the start of the next one."""
    reader = kfac.data_reader.CachedDataReader(network.batch, 12)
    return {
        "train_batch": reader(12),
        "prev_train_batch": reader.cached_batch,
        "loss_fn": network.loss_of,
        "use_passed_loss": False,
        "adapt_damping": True,
        "update_damping_immediately": False,
        "damping_adaptation_interval": 2,
        "invert_every": 2,
    }


@pytest.mark.parametrize("settings", [burn_in, spread_first_inverses, judgement_in_the_next_step])
def test_a_stop_after_any_step_changes_nothing(build_mlp, rows, tmp_path, settings):
    """Also in the burn-in or the round of first inverses, and between a step and its judgement.

    Each batch differs, so another batch than that of the step would judge it otherwise.
    """
    path, steps = str(tmp_path / "model.ckpt"), 5
    network = build_mlp(layers=2 if settings is spread_first_inverses else 1)
    optimizer = network.periodic(**settings(network))
    train = optimizer.minimize(network.losses[0], v1.train.create_global_step())
    variables = {v.op.name: v for v in v1.global_variables()}
    saver, initialize = v1.train.Saver(max_to_keep=None), v1.global_variables_initializer()

    def trained(first):
        """Makes the steps from one on, in a session of their own; returns all variables of each."""
        states = []
        with v1.Session() as session:
            session.run(initialize) if first == 0 else saver.restore(session, f"{path}-{first}")
            for step in range(first, steps):
                session.run(train, network.feed([rows[0] * (1 + step)], [rows[1]]))
                states.append(session.run(variables))
                if first == 0:
                    saver.save(session, path, step + 1, write_meta_graph=False)
        return states

    *stopped, whole = trained(0)
    for stop in range(1, steps):
        found = trained(stop)[-1]
        for name, value in whole.items():
            np.testing.assert_array_equal(value, found[name], err_msg=f"{name}, stop after {stop}")
    pending = [np.isfinite(state.get("kfac/prev_loss", np.nan)) for state in stopped]
    judges = settings is judgement_in_the_next_step
    assert any(pending) == np.isfinite(whole.get("kfac/rho", np.nan)) == judges


# Errors.


@pytest.mark.parametrize(
    ("argument", "value", "message"),
    [
        ("damping", float("nan"), r"damping=nan.* must be > 0"),
        ("damping", np.float32("inf"), r"damping=.*inf.* must be > 0"),
        ("tf_replicator", "mirrored", "tf_replicator='mirrored' does not go with graph mode"),
        ("calibrate_damping", True, "calibrate_damping=True does not go with adapt_damping=False"),
        ("rejection_rho_threshold", 0.0, "rejection_rho_threshold=0.0 .*adapt_damping=False"),
        ("use_passed_loss", False, "use_passed_loss=False, train_batch=None"),
        ("placement_strategy", "random", "placement_strategy='random'. Accepted are None"),
        ("compute_params_stats", True, "compute_params_stats=True, batch_size=None"),
        ("momentum_type", "qmodel", "momentum=0.9 does not go with momentum_type='qmodel'"),
        ("estimation_mode", "exactly", "estimation_mode='exactly'. Accepted are 'gradients'"),
    ],
)
def test_bad_arguments(graph, argument, value, message):
    with pytest.raises(ValueError, match=message):
        kfac.KfacOptimizer(layer_collection=kfac.LayerCollection(), **{**SETTINGS, argument: value})
    assert not graph.get_operations()


def test_eager_use_is_refused():
    optimizer = kfac.KfacOptimizer(layer_collection=kfac.LayerCollection(), **SETTINGS)
    for call in (optimizer.minimize, optimizer.apply_gradients):
        with pytest.raises(ValueError, match=r"KfacOptimizer\.\w+_gradients .* graph mode only: "):
            call(lambda: tf.constant(1.0))
    advice = r"a KfacOptimizer, which runs in graph mode .* compile: give that a kfac\.keras\.Kfac"
    assert re.search(advice, str(optimizer))
