import numpy as np
import pytest
import tensorflow as tf

from kfac.fisher_factors import NaiveDiagonalFactor, NaiveFullFactor

v1 = tf.compat.v1


@pytest.mark.parametrize(
    ("cls", "start", "expected"),
    [
        (NaiveFullFactor, np.eye(2), [[0.75, 0.5], [0.5, 1.5]]),
        (NaiveDiagonalFactor, np.ones(2), [0.75, 1.5]),
    ],
)
@pytest.mark.parametrize("batch_size", [2, "tensor"])
def test_known_average_with_an_identity(graph, session, cls, start, expected, batch_size):
    size = tf.constant(2) if batch_size == "tensor" else 2
    factor = cls((((tf.constant([[1.0, 2.0]]),),),), size, ("",), name="w")
    factor.instantiate_cov_variables()
    total, weight, _ = factor.cov_variables
    session.run(v1.global_variables_initializer())
    session.run([v1.assign(total, start), v1.assign(weight, 1.0)])
    session.run(factor.make_covariance_update_op(0.5, 0.5))
    np.testing.assert_allclose(session.run(factor.cov), expected)


def test_parts_are_concatenated_and_sources_summed(graph, session):
    random = np.random.RandomState(0)
    sources = [(random.randn(2, 2), random.randn(3)) for _ in range(2)]
    tensors = tuple((tuple(map(tf.constant, source)),) for source in sources)
    flat = [np.concatenate([g.ravel() for g in source]) for source in sources]
    full = NaiveFullFactor(tensors, 5, ("",), name="w")
    diagonal = NaiveDiagonalFactor(tensors, 5, ("",), name="w")
    assert full.dimension == diagonal.dimension == 7
    expected = sum(np.outer(g, g) for g in flat) / 5
    np.testing.assert_allclose(session.run(full.batch_statistic()), expected, rtol=1e-12)
    found = session.run(diagonal.batch_statistic())
    np.testing.assert_allclose(found, np.diag(expected), rtol=1e-12)
