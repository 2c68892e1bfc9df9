"""Powers of a damped diagonal matrix."""

import numpy as np
import tensorflow as tf

from kfac.linalg.diagonal_power import damped_diagonal_power


def test_powers(graph, session):
    """They are zero where they are not finite."""
    value, damping = np.array([0.5, 2.0]), tf.constant(0.1, tf.float64)
    for exponent in (-1, -0.5, 2):
        found = damped_diagonal_power(tf.constant(value), damping, exponent, tf.float32)
        assert found.dtype == tf.float32
        np.testing.assert_allclose(session.run(found), (value + 0.1) ** exponent, rtol=1e-6)
    for bad, damping in ((np.nan, 1.0), (np.inf, 1.0), (0.0, 0.0)):
        found = damped_diagonal_power(tf.constant([1.0, bad]), tf.constant(damping), -1, tf.float32)
        np.testing.assert_array_equal(session.run(found), [0, 0])
