"""Refresh of the curvature, every so many steps, or beside the steps."""

import numpy as np
import pytest
import tensorflow as tf

import kfac
from kfac.update.asynchronous_refresh import RefreshThreads
from kfac.update.periodic_refresh import RefreshPeriods
from kfac.update.step import StepConditions

v1 = tf.compat.v1


def make(network, **kwargs):
    settings = {"learning_rate": 0.1, "damping": 0.3, "estimation_mode": "empirical"}
    return kfac.PeriodicInvCovUpdateKfacOpt(
        layer_collection=network.collection, **{**settings, **kwargs}
    )


@pytest.mark.parametrize(("use_resource", "every"), [(True, 1), (False, 2)])
def test_burn_in_only_averages(build_mlp, session, rows, use_resource, every):
    """Also through `apply_gradients` alone, which is all that wrappers call."""
    network = build_mlp(use_resource=use_resource, layers=1)
    with v1.variable_scope("", use_resource=use_resource):
        optimizer = make(network, num_burnin_steps=3, cov_update_every=every, cov_ema_decay=0.5)
        gradients = optimizer.compute_gradients(network.losses[0])
        global_step = v1.train.get_or_create_global_step()
        train = optimizer.apply_gradients(gradients, global_step)
    feed = network.feed([rows[0]], [rows[1]])
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
    session.run(train, feed)
    assert session.run(optimizer.factors[0].cov_variables[1]) == 3 * 0.5**every + 1
    assert session.run(counters) == [1, 1, 0]
    (runs,) = (v for v in optimizer.variables() if v.op.name == "kfac/burnin_counter")
    assert session.run(runs) == 3
    for old, new in zip(before[0], session.run(network.variables), strict=True):
        assert (old != new).any()


def test_a_burn_in_is_not_the_first_step(build_mlp, session, rows):
    """Damping that is calibrated at the first step stays as it is in the burn-in."""
    network = build_mlp(layers=1)
    optimizer = make(
        network,
        num_burnin_steps=2,
        invert_every=1,
        adapt_damping=True,
        calibrate_damping=True,
        damping_adaptation_interval=100,
        loss_fn=tf.reduce_mean,
        train_batch=network.features[0],
    )
    train = optimizer.minimize(network.losses[0])
    feed = network.feed([rows[0]], [rows[1]])
    session.run(v1.global_variables_initializer())
    dampings = []
    for _ in range(4):
        session.run(train, feed)
        dampings.append(session.run(optimizer.damping))
    assert dampings[:2] == [np.float32(0.3)] * 2
    assert dampings[2] == dampings[3] != dampings[1]


def test_spread_inverses(build_mlp, session, rows):
    """All at the first step, each once in three steps from then on."""
    network = build_mlp()
    optimizer = make(network, invert_every=3, spread_inverses=True)
    train = optimizer.minimize(network.losses[0])
    inverses = [factor.inv_variables[0] for factor in optimizer.factors]
    session.run(v1.global_variables_initializer())
    changed = []
    for _ in range(7):
        before = session.run(inverses)
        session.run(train, network.feed([rows[0]], [rows[1]]))
        pairs = zip(before, session.run(inverses), strict=True)
        changed.append([(old != new).any() for old, new in pairs])
    assert all(changed[0])
    assert [sum(column) for column in zip(*changed[1:], strict=True)] == [2] * 4
    assert changed[1:4] == changed[4:]
    assert all(1 <= sum(row) <= 2 for row in changed[1:])


def test_spreading_over_single_steps_is_no_spreading(build_mlp, session, rows):
    network = build_mlp(layers=1)
    optimizer = make(network, invert_every=1, spread_inverses=True)
    update = optimizer.kfac_update_ops()
    session.run(v1.global_variables_initializer())
    before = session.run(optimizer._estimator.inv_variables[0])
    session.run(update, network.feed([rows[0]], [rows[1]]))
    assert (session.run(optimizer._estimator.inv_variables[0]) != before).any()


@pytest.mark.parametrize(
    ("invert_every", "interval", "separates"), [(5, 5, False), (5, 10, False), (10, 5, True)]
)
def test_periods_separate_damping_from_inverses(invert_every, interval, separates):
    assert RefreshPeriods(invert_every, 1, 0, False).separates(interval) == separates


def test_a_period_that_may_change_is_not_judged(graph):
    assert not RefreshPeriods(tf.constant(10), 1, 0, False).separates(5)


class Step:
    """Keeps the conditions that it is applied with."""

    def apply(self, pairs, conditions, *_):
        self.conditions = conditions
        return tf.no_op()


class Curvature:
    """Ops that count how often averages and inverses are updated."""

    def __init__(self):
        self.counts = v1.get_variable("counts", initializer=[0, 0])

    def make_vars_and_create_op_thunks(self):
        return [], [lambda: v1.assign_add(self.counts, [0, 1]).op]

    def make_cov_update_op(self):
        return v1.assign_add(self.counts, [1, 0]).op


def test_a_step_waits_for_no_update(graph):
    step = Step()
    RefreshThreads(None).policy(step, Curvature(), "KFAC").apply([], None, None)
    assert step.conditions == StepConditions()


def test_a_cycle_updates_averages_and_inverses_without_the_caller(graph, session):
    policy = RefreshThreads(1).policy(Step(), curvature := Curvature(), "KFAC")
    with v1.control_dependencies([v1.placeholder(tf.float32, [])]):
        policy.apply([], None, None)
    session.run(v1.global_variables_initializer())
    policy.start(session)
    policy.check()
    policy.stop()
    assert (session.run(curvature.counts) >= 1).all()


def test_nothing_starts_before_there_are_ops(session):
    policy = RefreshThreads(None).policy(Step(), None, "KFAC")
    with pytest.raises(ValueError, match="KFAC has no updates to run in the background: call"):
        policy.start(session)
    policy.check()
    policy.stop()
