"""The backward pass of statistics that are needed only at times, and what uses it besides."""

import numpy as np
import pytest
import tensorflow as tf

import kfac
from kfac.fisher_blocks import FullyConnectedKFACBasicFB

v1 = tf.compat.v1


def make(network, cov_update_every=2, estimation_mode="empirical"):
    return kfac.PeriodicInvCovUpdateKfacOpt(
        learning_rate=0.1,
        damping=0.3,
        cov_ema_decay=0.5**0.5,
        layer_collection=network.collection,
        cov_update_every=cov_update_every,
        invert_every=4,
        estimation_mode=estimation_mode,
    )


def minimized(network, *args):
    optimizer = make(network, *args)
    return optimizer, optimizer.minimize(network.losses[0])


def passes(graph):
    """Number of times that targets are sampled, once for each pass."""
    return sum(op.type == "StatelessMultinomial" for op in graph.get_operations())


@pytest.mark.parametrize(
    ("every", "uses_thunks", "expected"), [(1, False, 1), (2, False, 1), (2, True, 2)]
)
def test_number_of_passes(build_mlp, graph, every, uses_thunks, expected):
    network = build_mlp()
    optimizer, _ = minimized(network, every, "gradients")
    for thunk in optimizer.make_vars_and_create_op_thunks()[0] if uses_thunks else ():
        thunk()
    assert passes(graph) == expected


def test_blocks_of_a_program_have_gradients_that_always_run(build_mlp, graph, monkeypatch):
    network = build_mlp()
    monkeypatch.setattr(FullyConnectedKFACBasicFB, "__module__", "program")
    minimized(network, 2, "gradients")
    assert passes(graph) == 2


def test_updates_of_single_factors_run_whatever_is_due(build_mlp, session, rows):
    """After the first step no statistics are due."""
    network = build_mlp(layers=1)
    optimizer, train = minimized(network)
    updates = [factor.make_covariance_update_op(0.5) for factor in optimizer.factors]
    thunks = [thunk() for thunk in optimizer.make_vars_and_create_op_thunks()[0]]
    weights = [factor.cov_variables[1] for factor in optimizer.factors]
    feed = network.share(rows)
    session.run(v1.global_variables_initializer())
    session.run(train, feed)
    before = session.run(weights)
    session.run(updates, feed)
    for thunk in thunks:
        session.run(thunk, feed)
    np.testing.assert_allclose(session.run(weights), 0.25 * np.array(before) + 1.5)
    statistic, value = session.run(
        [optimizer.factors[0].batch_statistic(), optimizer.factors[0].cov], feed
    )
    np.testing.assert_allclose(value, statistic, rtol=1e-12)
