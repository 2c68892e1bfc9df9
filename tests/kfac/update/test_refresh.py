"""Steps with a curvature that is refreshed, and gradients that do not fit the layers."""

import numpy as np
import pytest
import tensorflow as tf

import kfac

v1 = tf.compat.v1
DAMPING = 0.3


@pytest.fixture
def owner(build_mlp):
    network = build_mlp()
    optimizer = kfac.KfacOptimizer(
        learning_rate=0.1,
        damping=0.1,
        layer_collection=network.collection,
        estimation_mode="empirical",
        batch_size=12,
        compute_params_stats=True,
    )
    return network, optimizer


def test_older_form_of_the_thunks(owner, session, rows):
    network, optimizer = owner
    made = optimizer.make_ops_and_vars(scope="older")
    cov_updates, cov_update, inv_updates, inv_update, cov_thunks, inv_thunks = made
    assert cov_update.name == "older/cov_update"
    assert [len(x) for x in (cov_updates, inv_updates, cov_thunks, inv_thunks)] == [4] * 4
    feed = network.share(rows)
    session.run(v1.global_variables_initializer())
    session.run(cov_update, feed)
    session.run(inv_updates[0])
    changed = [session.run(factor.inv_variables[0]).any() for factor in optimizer.factors]
    assert changed == [True, False, False, False]
    session.run(inv_update)
    assert all(session.run(factor.inv_variables[0]).any() for factor in optimizer.factors)
    session.run(cov_thunks[1](), feed)
    weights = [factor.cov_variables[1] for factor in optimizer.factors]
    assert session.run(weights) == [1, 1 + 0.95, 1, 1]


def test_a_subclass_may_override_both_halves_of_minimize(build_mlp):
    network, calls = build_mlp(layers=1), []

    class Recorder(kfac.KfacOptimizer):
        def compute_gradients(self, *args, **kwargs):
            calls.append("compute")
            return super().compute_gradients(*args, **kwargs)

        def apply_gradients(self, *args, **kwargs):
            calls.append("apply")
            return super().apply_gradients(*args, **kwargs)

    Recorder(0.1, 0.1, network.collection).minimize(network.losses[0])
    assert calls == ["compute", "apply"]


def test_gradients_of_other_variables(owner):
    network, optimizer = owner
    pairs = [(tf.zeros_like(v), v) for v in network.variables]
    scale = v1.get_variable("scale", [])
    optimizer.check_var_list(network.variables)
    with pytest.raises(ValueError, match=r"fewer variables than are registered.*logits/b"):
        optimizer.check_var_list(network.variables[:3])
    with pytest.raises(ValueError, match="cannot train scale"):
        optimizer.check_var_list([*network.variables, scale])
    assert optimizer.check_gradients([*pairs, (None, scale)]) == pairs
    with pytest.raises(ValueError, match=r"cannot train scale: no layer.*register_conv2d"):
        optimizer.apply_gradients([*pairs, (scale, scale)])
    with pytest.raises(ValueError, match=r"no gradient for mlp/logits/b, which are registered"):
        optimizer.apply_gradients(pairs[:3])
    assert not network.collection.is_final


# Steps before the first inverse.
def by_hand(network, kind=kfac.KfacOptimizer, **kwargs):
    settings = {"learning_rate": 0.1, "damping": DAMPING, "estimation_mode": "empirical"}
    return kind(layer_collection=network.collection, **{**settings, **kwargs})


def moves(session, network, train, feed):
    """Runs a step; returns by how much it moved each variable."""
    before = session.run(network.variables)
    session.run(train, feed)
    return [new - old for old, new in zip(before, session.run(network.variables), strict=True)]


def kronecker_eigenvalue(times):
    return times * (1 + np.sqrt(DAMPING / times)) ** 2


@pytest.mark.parametrize(
    ("kind", "conv", "dense", "eigenvalues"),
    [
        (kfac.KfacOptimizer, "kron", "ekfac", (kronecker_eigenvalue(16), 1 + DAMPING)),
        (
            kfac.AsyncInvCovUpdateKfacOpt,
            "ekfac",
            "kron_in_diag",
            (16 + DAMPING, kronecker_eigenvalue(1)),
        ),
    ],
)
def test_a_step_without_inverses_is_that_of_damped_identity_matrices(
    build_network, session, batch, kind, conv, dense, eigenvalues
):
    """Also in the background, where no inverses are computed before it is started."""
    layers = kfac.graph_layer_collection()
    layers.set_default_conv2d_approximation(conv)
    layers.set_default_fully_connected_approximation(dense)
    network = build_network(dtype="float64")
    optimizer = by_hand(network, kind)
    pairs = optimizer.compute_gradients(network.losses[0])
    train = optimizer.apply_gradients(pairs)
    feed = network.share(batch)
    session.run(v1.global_variables_initializer())
    gradients = session.run([gradient for gradient, _ in pairs], feed)
    found = moves(session, network, train, feed)
    for move, gradient, eigenvalue in zip(found, gradients, np.repeat(eigenvalues, 2), strict=True):
        np.testing.assert_allclose(move, -0.1 * gradient / eigenvalue, rtol=1e-9, atol=1e-15)
    assert session.run([optimizer.counter, optimizer.skipped_steps]) == [1, 0]


def test_a_layer_is_an_identity_until_both_its_inverses_are_computed(build_mlp, session, rows):
    network = build_mlp()
    optimizer = by_hand(network, momentum=None)
    averages, inverses = optimizer.make_vars_and_create_op_thunks()
    averages, inverses = ([make() for make in thunks] for thunks in (averages, inverses))
    pairs = optimizer.compute_gradients(network.losses[0])
    train = optimizer.apply_gradients(pairs)
    feed = network.share(rows)
    session.run(v1.global_variables_initializer())
    session.run(averages, feed)
    session.run(inverses[1:])
    gradients = session.run([gradient for gradient, _ in pairs], feed)
    found = moves(session, network, train, feed)
    for move, gradient in zip(found[:2], gradients[:2], strict=True):
        expected = -0.1 * gradient / kronecker_eigenvalue(1)
        np.testing.assert_allclose(move, expected, rtol=1e-9, atol=1e-15)
    left, right = session.run([factor.inv_variables[0] for factor in optimizer.factors[2:]])
    expected = -0.1 * left @ np.vstack(gradients[2:]) @ right
    np.testing.assert_allclose(np.vstack(found[2:]), expected, rtol=1e-9)


@pytest.mark.parametrize("includes_damping", [True, False])
def test_a_step_without_inverses_is_judged_by_the_same_matrix(
    build_mlp, session, rows, includes_damping
):
    """Of the damping only l2_reg counts, unless all of it is to count."""
    network = build_mlp(layers=1)
    optimizer = by_hand(
        network,
        momentum_type="regular",
        momentum=None,
        adapt_damping=True,
        damping_adaptation_interval=1,
        rejection_rho_threshold=0.0,
        include_damping_in_qmodel_change=includes_damping,
        l2_reg=0.1,
        loss_fn=network.loss_of,
        train_batch=network.batch,
        dtype="float64",
    )
    pairs = optimizer.compute_gradients(network.losses[0])
    train = optimizer.apply_gradients(pairs)
    feed = network.share(rows)
    session.run(v1.global_variables_initializer())
    gradients = session.run([gradient for gradient, _ in pairs], feed)
    found = moves(session, network, train, feed)
    size, slope = (
        sum(np.sum(move * other) for move, other in zip(found, others, strict=True))
        for others in (found, gradients)
    )
    uncounted = 0 if includes_damping else DAMPING - 0.1
    change = (kronecker_eigenvalue(1) - uncounted) * size / 2 + slope
    assert session.run(optimizer.qmodel_change) == pytest.approx(change, rel=1e-9)
    assert session.run(optimizer.rejected_steps) == 0
    assert session.run(optimizer.rho) > 0


def test_periodic_optimizer_moves_nothing_without_inverses(build_mlp, session, rows):
    network = build_mlp(layers=1)
    optimizer = by_hand(network, kfac.PeriodicInvCovUpdateKfacOpt)
    train = network.start(session, optimizer)
    # It refuses a batch that is not finite, so that there are no averages to invert.
    session.run(train, network.feed([np.full_like(rows[0], np.nan)], [rows[1]]))
    found = moves(session, network, train, network.share(rows))
    assert not any(move.any() for move in found)
