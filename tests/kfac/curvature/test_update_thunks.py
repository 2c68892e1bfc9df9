import numpy as np
import tensorflow as tf

from kfac.curvature.update_thunks import CurvatureOps, Thunks
from kfac.estimator import FisherEstimator

v1 = tf.compat.v1


def test_results_unpack_in_the_order_that_callers_know():
    assert Thunks._fields == ("cov_variables", "cov_updates", "inv_variables", "inv_updates")
    assert CurvatureOps._fields == (
        "cov_updates",
        "cov_update",
        "inv_updates",
        "inv_update",
        "cov_update_thunks",
        "inv_update_thunks",
    )


def test_all_inverses_at_once_are_those_of_the_thunks(build_network, graph, session, batch):
    network = build_network(1)
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
    session.run(averages, network.feed([batch[0]], [batch[1]]))
    for op in thunk_ops:
        session.run(op)
    inverses = estimator.inv_variables
    expected = session.run(inverses)
    session.run(v1.variables_initializer(inverses))
    session.run(made)
    for one_by_one, at_once in zip(expected, session.run(inverses), strict=True):
        np.testing.assert_allclose(at_once, one_by_one, rtol=1e-5, atol=1e-7)
    assert all(value.any() for value in expected[::2])
