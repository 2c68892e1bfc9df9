import numpy as np
import pytest
import tensorflow as tf

from kfac.fisher_factors.sua import RepeatedOperator


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
