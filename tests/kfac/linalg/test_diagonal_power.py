"""Powers of a damped diagonal matrix."""

import numpy as np
import pytest
import tensorflow as tf

from kfac.linalg.diagonal_power import damped_diagonal_power


@pytest.mark.parametrize("exponent", [-1, -0.5, 2])
def test_powers(graph, session, exponent):
    value = np.array([0.5, 2.0])
    found = damped_diagonal_power(
        tf.constant(value), tf.constant(0.1, tf.float64), exponent, tf.float32
    )
    assert found.dtype == tf.float32
    np.testing.assert_allclose(session.run(found), (value + 0.1) ** exponent, rtol=1e-6)


@pytest.mark.parametrize(("value", "damping"), [(np.nan, 1.0), (np.inf, 1.0), (0.0, 0.0)])
def test_powers_that_are_not_finite_are_zero(graph, session, value, damping):
    found = damped_diagonal_power(tf.constant([1.0, value]), tf.constant(damping), -1, tf.float32)
    np.testing.assert_array_equal(session.run(found), [0, 0])
