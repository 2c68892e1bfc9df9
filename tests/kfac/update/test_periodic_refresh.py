"""Refresh of the curvature, every so many steps, or beside the steps."""

import numpy as np
import pytest
import tensorflow as tf

import kfac
from kfac.update.refresh import RefreshPeriods, Spread

v1 = tf.compat.v1


@pytest.mark.parametrize(("use_resource", "every"), [(True, 1), (False, 2)])
def test_burn_in_only_averages(build_mlp, session, rows, use_resource, every):
    """Also through `apply_gradients` alone, which is all that wrappers call.

    Damping that is calibrated at the first step stays as it is until then.
    """
    network = build_mlp(use_resource=use_resource, layers=1)
    calibrated = {"adapt_damping": True, "calibrate_damping": True} if use_resource else {}
    with v1.variable_scope("", use_resource=use_resource):
        optimizer = network.periodic(
            num_burnin_steps=3,
            cov_update_every=every,
            cov_ema_decay=0.5,
            damping_adaptation_interval=100,
            **calibrated,
        )
        gradients = optimizer.compute_gradients(network.losses[0])
        global_step = v1.train.get_or_create_global_step()
        train = optimizer.apply_gradients(gradients, global_step)
    assert v1.get_collection(v1.GraphKeys.TRAIN_OP) == [train]
    feed = network.share(rows)
    session.run(v1.global_variables_initializer())
    velocities = [optimizer.get_slot(v, "velocity") for v in network.variables]
    watched = [network.variables, velocities, optimizer._estimator.inv_variables]
    before = session.run(watched)
    for run in range(3):
        session.run(train, feed)
        assert session.run(optimizer.factors[0].cov_variables[1]) == run + 1
    tf.nest.map_structure(np.testing.assert_array_equal, before, session.run(watched))
    counters = [optimizer.counter, global_step, optimizer.skipped_steps]
    assert session.run(counters) == [0, 0, 0]
    if calibrated:
        assert session.run(optimizer.damping) == 0.3
    session.run(train, feed)
    if calibrated:
        assert session.run(optimizer.damping) != 0.3
    assert session.run(optimizer.factors[0].cov_variables[1]) == 3 * 0.5**every + 1
    assert session.run(counters) == [1, 1, 0]
    (runs,) = (v for v in optimizer.variables() if v.op.name == "kfac/burnin_counter")
    assert session.run(runs) == 3
    for old, new in zip(before[0], session.run(network.variables), strict=True):
        assert (old != new).any()


def test_spread_inverses(build_mlp, session, rows):
    """All at the first step, each once in three steps from then on."""
    network = build_mlp()
    optimizer = network.periodic(invert_every=3, spread_inverses=True)
    train = network.start(session, optimizer)
    inverses = [factor.inv_variables[0] for factor in optimizer.factors]
    changed = []
    for _ in range(7):
        before = session.run(inverses)
        session.run(train, network.share(rows))
        pairs = zip(before, session.run(inverses), strict=True)
        changed.append([(old != new).any() for old, new in pairs])
    assert all(changed[0])
    assert [sum(column) for column in zip(*changed[1:], strict=True)] == [2] * 4
    assert changed[1:4] == changed[4:]
    assert all(1 <= sum(row) <= 2 for row in changed[1:])


SPREAD = {"invert_every": 3, "spread_inverses": True, "spread_first_inverses": True}
SHARES = [[0, 1], [2, 3], []]
"""Factors that each step of a period of three inverts: the smaller layer comes first."""


def test_shares_of_layers_are_balanced_and_leave_out_diagonals(graph):
    """Layers of 6³ + 2³, 2³ + 2³ and 5³ + 2³ multiplications, and one without inverses."""
    layers, features = kfac.LayerCollection(), tf.ones([4, 6])
    for name, size in (("large", 6), ("small", 2), ("middle", 5), ("diagonal", 3)):
        weight = v1.get_variable(name, [size, 2])
        outputs = features[:, :size] @ weight
        approx = "diagonal" if name == "diagonal" else "kron"
        layers.register_fully_connected(weight, features[:, :size], outputs, approx=approx)
        layers.register_squared_error_loss(outputs)
    optimizer = kfac.KfacOptimizer(0.1, 0.1, layers)
    factors = optimizer.factors
    shares = Spread(2, True).shares(layers.get_blocks(), factors)
    found = [[factors[i].name for i in share] for share in shares]
    first = [f"{name}/{side}" for name in ("small", "middle") for side in ("input", "output")]
    assert found == [first, ["large/input", "large/output"]]


def test_a_layer_follows_its_scaled_gradient_until_it_has_its_inverse(
    build_mlp, session, rows, damped_inverses
):
    """Steps of NumPy: a layer without both inverses has identity matrices, damped as factors are.

    The first layer has both from the first step on, the last one from the second on.
    """
    network = build_mlp()
    optimizer = network.periodic(**SPREAD, momentum=None, cov_ema_decay=0.5)
    gradients = optimizer.compute_gradients(network.losses[0])
    train = optimizer.apply_gradients(gradients)
    averages = [factor.cov for factor in optimizer.factors]
    session.run(v1.global_variables_initializer())
    kept = [None] * 4
    for step in range(5):
        feed = network.feed([rows[0] * (1 + step)], [rows[1]])
        before, slopes = session.run([network.variables, [g for g, _ in gradients]], feed)
        session.run(train, feed)
        inverses = damped_inverses(session.run(averages), 0.3)
        for index in SHARES[step % 3]:
            kept[index] = inverses[index]
        for layer, after in enumerate(pairs_of(session.run(network.variables))):
            slope = np.concatenate([np.atleast_2d(x) for x in pairs_of(slopes)[layer]])
            a, g = kept[2 * layer : 2 * layer + 2]
            is_known = a is not None and g is not None
            assert is_known == (step >= layer)
            product = a @ slope @ g if is_known else slope / (1 + np.sqrt(0.3)) ** 2
            expected = np.concatenate([np.atleast_2d(x) for x in pairs_of(before)[layer]])
            found = np.concatenate([np.atleast_2d(x) for x in after])
            np.testing.assert_allclose(found, expected - 0.1 * product, rtol=1e-9)


def pairs_of(values):
    return list(zip(values[::2], values[1::2], strict=True))


@pytest.mark.parametrize("behavior", ["v1"], indirect=True)
def test_damping_adapts_while_first_inverses_are_spread(behavior, build_mlp, session, rows):
    network = build_mlp()
    optimizer = network.periodic(
        **SPREAD,
        learning_rate=None,
        momentum=None,
        momentum_type="qmodel",
        adapt_damping=True,
        damping_adaptation_interval=3,
        rejection_rho_threshold=0.0,
    )
    train = network.start(session, optimizer)
    feed = network.share(rows)
    losses = [session.run(network.losses[0], feed)]
    for _ in range(9):
        session.run(train, feed)
        losses.append(session.run(network.losses[0], feed))
    assert session.run(optimizer.skipped_steps) == 0
    assert np.isfinite(session.run(optimizer.rho))
    assert session.run(optimizer.damping) != 0.3
    assert losses[-1] < losses[3] < losses[0]


@pytest.mark.parametrize(
    ("settings", "step", "expected"),
    [
        ((2, 3, 0, False), 0, [True, True, True]),
        ((2, 3, 0, False), 4, [True, False, True]),
        ((2, 3, 0, False), 9, [True, True, False]),
        ((2, 3, 5, False), 4, [False, True, False]),
        ((4, 1, 0, False, False, 2), 8, [True, True, True]),
        ((3, 1, 0, True), 4, [True, True, True]),
        ((12, 4, 0, False, False, 0, True), 2, [True, True, True]),
        ((12, 4, 0, False, False, 0, True), 3, [True, False, False]),
        ((12, 4, 0, False, False, 0, True), 16, [True, True, False]),
    ],
)
def test_a_policy_says_what_is_due(session, settings, step, expected):
    policy = RefreshPeriods(*settings)
    due = policy.due(tf.constant(step, tf.int64))
    session.run(v1.global_variables_initializer())
    found = session.run([tf.convert_to_tensor(x) for x in (due.step, due.averages, due.inverses)])
    assert found == expected
    assert due.delay == policy.inverse_delay
    assert due.spread == (Spread(3, False) if policy.spread_inverses else None)
    assert [v.op.name for v in policy.variables] == ["kfac/burnin_counter"] * bool(due.state)


@pytest.mark.parametrize(
    ("first_too", "due"), [(False, ([1, 1], [0, 1], [0, 0], [1, 0])), (True, ([1, 0], [0, 1]))]
)
def test_shares_that_are_due(session, first_too, due):
    """Two shares in a period of three, after each number of steps."""
    found = [Spread(3, first_too).due(tf.constant(n, tf.int64), 2) for n in range(len(due))]
    np.testing.assert_array_equal(session.run(found), due)


def test_first_inverses_are_spread_only_with_later_ones(graph):
    with pytest.raises(ValueError, match=r"spread_first_inverses=True with spread_inverses=False"):
        RefreshPeriods(3, 1, 0, False, True)
    for others in [(True, False, 0), (False, False, 2)]:
        with pytest.raises(ValueError, match="early_refresh=True does not go with"):
            RefreshPeriods(3, 1, 0, *others, early_refresh=True)


def test_periods_separate_damping_from_inverses(graph):
    """A period that may change is not judged."""
    rows = [(5, 5), (5, 10), (10, 5), (tf.constant(10), 5)]
    found = [RefreshPeriods(every, 1, 0, False).separates(interval) for every, interval in rows]
    assert found == [False, False, True, False]
