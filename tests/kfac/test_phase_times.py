import time

import numpy as np
import pytest
import tensorflow as tf

import kfac
from kfac.phase_times import PhaseTimes
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


@pytest.fixture
def timed(graph, session):
    """(op of a phase that takes 0.1 s when it is due, after 0.5 s; due; seconds; summaries)."""
    due = v1.placeholder(tf.bool, [])
    times = PhaseTimes()
    before = sleeping(0.5)
    start = times.begin("inverse", after=[before])

    with v1.control_dependencies([start]):
        op = run_if(due, lambda: times.end("inverse", start, tf.group(sleeping(0.1))))
    with v1.name_scope("kfac/monitor/"):
        times.summarize()
    return op, due, times.read()["inverse"], v1.summary.merge_all()


def test_only_the_phase_is_timed_and_only_when_it_runs(timed, session):
    op, due, seconds, summary = timed
    session.run(op, {due: False})
    assert np.isnan(session.run(seconds))
    assert monitored(session.run(summary)) == {}
    session.run(op, {due: True})
    first = session.run(seconds)
    assert 0.09 <= first < 0.5
    session.run(op, {due: False})
    assert session.run(seconds) == first
    assert monitored(session.run(summary)) == {"inverse_seconds": pytest.approx(first)}


def test_durations_are_no_state_to_save_or_initialize(timed):
    assert v1.global_variables() == v1.local_variables() == []


@pytest.mark.usefixtures("behavior")
def test_phases_of_an_optimizer(build_mlp, session, rows):
    network = build_mlp()
    optimizer = kfac.PeriodicInvCovUpdateKfacOpt(
        invert_every=3,
        cov_update_every=2,
        layer_collection=network.collection,
        learning_rate=0.1,
        damping=0.1,
    )
    train = optimizer.minimize(network.losses[0])
    summary, feed = v1.summary.merge_all(), network.feed([rows[0]], [rows[1]])
    session.run(v1.global_variables_initializer())
    # Summaries are made after the updates, and beside the step.
    found = [monitored(session.run([summary, train], feed)[0]) for _ in range(8)]
    seconds = {
        phase: [values.get(f"{phase}_seconds") for values in found]
        for phase in ("covariance", "inverse", "apply")
    }
    for durations in seconds.values():
        assert all(0 < duration < 60 for duration in durations[1:])
    changes = {
        phase: [step for step in range(1, 8) if durations[step] != durations[step - 1]]
        for phase, durations in seconds.items()
    }
    assert changes["covariance"] == [2, 4, 6]
    assert changes["inverse"] == [3, 6]
    assert len(changes["apply"]) > 3
