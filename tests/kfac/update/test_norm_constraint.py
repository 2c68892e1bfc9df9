import numpy as np
import pytest
import tensorflow as tf

from kfac.update.norm_constraint import norm_constraint_coefficient

v1 = tf.compat.v1


def coefficient(*arguments):
    with v1.Session() as session:
        return session.run(norm_constraint_coefficient(*map(tf.constant, arguments)))


def test_long_step_is_cut_to_the_constraint(graph):
    # Two pairs of 2x2 matrices: the sum of g·d is 174.
    g = [np.array([[1.0, 2], [3, 4]]), np.array([[5.0, 6], [7, 8]])]
    d = [np.array([[2.0, 4], [6, 8]]), np.array([[1.0, 2], [3, 4]])]
    squared = 174.0
    d[1] *= (squared - np.sum(g[0] * d[0])) / np.sum(g[1] * d[1])
    factor = coefficient(squared, 0.1, 0.5)
    rescaled = sum(
        np.sum(a * (factor * 0.1) * (factor * 0.1) * b) for a, b in zip(g, d, strict=True)
    )
    np.testing.assert_allclose(rescaled, 0.5, rtol=1e-6)


def test_short_step_is_left_alone(graph):
    assert coefficient(174.0, 0.1, 10.0) == 1.0


@pytest.mark.parametrize("squared", [0.0, -1.0])
def test_no_step_is_not_a_division_by_zero(graph, squared):
    assert coefficient(squared, 0.1, 0.5) == 1.0
