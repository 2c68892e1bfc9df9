import numpy as np
import pytest
import tensorflow as tf

from kfac.config import CurvatureConfig
from kfac.fisher_factors import ConvInputSUAKroneckerFactor, Damping
from kfac.fisher_factors.sua import RepeatedOperator
from kfac.patches.geometry import ConvGeometry

v1 = tf.compat.v1

GEOMETRY = ConvGeometry((2, 2), (1, 1), "SAME")
IMAGES = 1 + np.random.RandomState(0).randn(5, 3, 4, 3)


@pytest.mark.parametrize("has_last", [False, True])
def test_operator(graph, session, has_last):
    random = np.random.RandomState(0)
    block = random.randn(2, 2)
    block += block.T
    matrix = np.kron(np.eye(3), block)
    matrix = np.pad(matrix, [[0, 1], [0, 1]]) if has_last else matrix
    if has_last:
        matrix[-1, -1] = 5.0
    vector = random.randn(len(matrix))
    operator = RepeatedOperator(
        tf.constant(block), 3, tf.constant(5.0, tf.float64) if has_last else None,
        tf.constant(vector), tf.constant(-0.5, tf.float64),
    )  # fmt: skip
    matrix -= 0.5 * np.outer(vector, vector)
    x = random.randn(len(matrix), 4)
    found = session.run([operator.to_dense(), operator.left(x), operator.right(x.T)])
    for value, expected in zip(found, (matrix, matrix @ x, x.T @ matrix), strict=True):
        np.testing.assert_allclose(value, expected, atol=1e-12)


@pytest.mark.parametrize("zero_mean", [False, True])
def test_towers_give_the_statistic_of_the_whole_batch(graph, session, zero_mean):
    config = CurvatureConfig(zero_mean_activations=zero_mean)
    towers = tuple(tf.constant(part) for part in np.split(IMAGES, [1, 3]))
    factor = ConvInputSUAKroneckerFactor(
        (towers,), GEOMETRY, True, ("",) * 3, name="conv/input", config=config
    )
    pixels = IMAGES.reshape(-1, 3)
    second, mean = pixels.T @ pixels / len(pixels), pixels.mean(0)
    found = session.run(factor.batch_statistic())
    if zero_mean:
        np.testing.assert_allclose(found, np.vstack([second, np.zeros(3)]), rtol=1e-10)
    else:
        np.testing.assert_allclose(found, np.vstack([second - np.outer(mean, mean), mean]))
    assert (factor.dimension, factor.cov_shape) == (13, (4, 3))


def test_trace_and_inverse(graph, session, update_factors):
    factor = ConvInputSUAKroneckerFactor(
        ((tf.constant(IMAGES),),), GEOMETRY, True, ("",), name="conv/input"
    )
    damping = Damping("conv/input", lambda: {"conv/input": tf.constant(0.3, tf.float64)})
    factor.register_inverse(damping)
    update_factors(factor)
    assert factor.inv_variables[0].shape == [3, 3]
    assert (factor.cov_bytes, factor.inverse_bytes) == (8 * 4 * 3, 8 * 3 * 3)
    matrix, trace, inverse = session.run(
        [factor.cov, factor.trace(), factor.get_inverse(damping).to_dense()]
    )
    np.testing.assert_allclose(trace, np.trace(matrix))
    covariance, mean = session.run(factor.get_cov_vars())
    np.testing.assert_allclose(mean, IMAGES.mean((0, 1, 2)))
    np.testing.assert_allclose(covariance, np.cov(IMAGES.reshape(-1, 3).T, bias=True))
    np.testing.assert_allclose(inverse, np.linalg.inv(matrix + 0.3 * np.eye(13)), atol=1e-12)
