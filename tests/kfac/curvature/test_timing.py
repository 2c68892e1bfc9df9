"""Durations of updates, and functions that make update ops."""

import time

import numpy as np
import pytest
import tensorflow as tf

import kfac
from kfac.curvature import timing
from kfac.curvature.timing import PhaseTimes
from kfac.estimator import FisherEstimator
from kfac.state import run_if

v1 = tf.compat.v1


def monitored(summary):
    found = v1.Summary.FromString(summary).value
    return {v.tag.removeprefix("kfac/monitor/"): v.simple_value for v in found}


def sleeping(seconds):
    def sleep():
        time.sleep(seconds)
        return np.float32(1)

    return tf.numpy_function(sleep, [], tf.float32)


def test_only_the_phase_is_timed_and_only_when_it_runs(graph, session):
    """One of 0.05 s when it is due, after 0.1 s of other work."""
    due = v1.placeholder(tf.bool, [])
    times = PhaseTimes()
    start = times.begin("inverse", after=[sleeping(0.1)])
    with v1.control_dependencies([start]):
        op = run_if(due, lambda: times.end("inverse", start, tf.group(sleeping(0.05))))
    with v1.name_scope("kfac/monitor/"):
        times.summarize()
    seconds, summary = times.read()["inverse"], v1.summary.merge_all()
    session.run(op, {due: False})
    assert np.isnan(session.run(seconds))
    assert monitored(session.run(summary)) == {}
    begun = time.monotonic()
    session.run(op, {due: True})
    whole = time.monotonic() - begun
    first = session.run(seconds)
    assert 0.045 <= first <= whole - 0.095
    session.run(op, {due: False})
    assert session.run(seconds) == first
    assert monitored(session.run(summary)) == {"inverse_seconds": pytest.approx(first)}
    # Durations are no state to save or initialize.
    assert v1.global_variables() == v1.local_variables() == []


@pytest.mark.parametrize("behavior", ["v1"], indirect=True)
def test_phases_of_an_optimizer(behavior, build_mlp, session, rows):
    network = build_mlp(layers=1)
    optimizer = kfac.PeriodicInvCovUpdateKfacOpt(
        invert_every=3,
        cov_update_every=2,
        layer_collection=network.collection,
        learning_rate=0.1,
        damping=0.1,
    )
    train = optimizer.minimize(network.losses[0])
    times, feed = optimizer._estimator.times, network.share(rows)
    durations = times.read()
    forget = [v1.assign(seconds, np.nan) for seconds in times._seconds.values()]
    session.run(v1.global_variables_initializer())

    def seconds_of_a_step():
        session.run(forget)
        session.run(train, feed)
        return session.run(durations)

    found = [seconds_of_a_step() for _ in range(8)]
    timed_in = {phase: [s for s in range(8) if 0 < found[s][phase] < 60] for phase in timing.PHASES}
    assert timed_in == {"covariance": [0, 2, 4, 6], "inverse": [0, 3, 6], "apply": [*range(8)]}
    session.run(train, feed)
    written = monitored(session.run(v1.summary.merge_all(), feed))
    assert {f"{phase}_seconds" for phase in timing.PHASES} <= written.keys()
    assert {"damping", "mean_curvature", "skipped_steps", "rejected_steps"} <= written.keys()


def test_all_inverses_at_once_are_those_of_the_thunks(build_mlp, graph, session, rows):
    network = build_mlp()
    estimator = FisherEstimator(None, 0.9, 0.1, network.collection)
    averages = estimator.make_cov_update_op()
    _, thunks = estimator.make_vars_and_create_op_thunks()
    counts = []
    for update in (*thunks, estimator.make_inv_update_op):
        before = set(graph.get_operations())
        made = update()
        new = set(graph.get_operations()) - before
        counts.append(sum("split_damping" in op.name for op in new))
    # π of a layer: for each factor alone, and for all four of them by layer.
    assert counts == [1, 1, 1, 1, 2]
    thunk_ops = [thunk() for thunk in thunks]
    session.run(v1.global_variables_initializer())
    session.run(averages, network.share(rows))
    for op in thunk_ops:
        session.run(op)
    inverses = estimator.inv_variables
    expected = session.run(inverses)
    session.run(v1.variables_initializer(inverses))
    session.run(made)
    for one_by_one, at_once in zip(expected, session.run(inverses), strict=True):
        np.testing.assert_allclose(at_once, one_by_one, rtol=1e-5, atol=1e-7)
    assert all(value.any() for value in expected[::2])
