"""Functions that a factor keeps, computed anew by one operation."""

import numpy as np
import pytest
import tensorflow as tf

from kfac.config import CurvatureConfig
from kfac.fisher_factors.kept_functions import KeptFunctions
from kfac.fisher_factors.moving_average import quotient
from kfac.fisher_factors.slot import Damping
from kfac.linalg import damped_matrix
from kfac.linalg.damped_functions import INVERSE, Cholesky, CholeskyInverse
from kfac.linalg.inversion import LARGEST_BLOCK
from kfac.linalg.shared import Reading
from kfac.state import make_variable

v1 = tf.compat.v1


@pytest.mark.parametrize(
    ("size", "kept", "dtype"),
    [(3, tf.float64, tf.float64), (LARGEST_BLOCK + 2, tf.float16, tf.float32)],
)
@pytest.mark.parametrize(
    ("function", "compute"),
    [
        (INVERSE, damped_matrix.damped_inverse),
        (Cholesky(), damped_matrix.damped_cholesky),
        (CholeskyInverse(), damped_matrix.damped_cholesky_inverse),
    ],
)
def test_functions_of_averages(graph, session, size, kept, dtype, function, compute):
    rows = np.random.RandomState(0).randn(2 * size, size)
    moment = rows.T @ rows
    total = make_variable("s", moment.shape, tf.float64, "", lambda: tf.constant(moment))
    weight = make_variable("w", [], tf.float64, "", 4.0)
    damping = tf.constant(0.5, dtype)
    functions = KeptFunctions("fc/input", CurvatureConfig(), kept)
    functions.register(function, Damping("fc/input", lambda: {"fc/input": damping}))
    (slot,) = functions.slots
    slot.make_variables(moment.shape, kept, "")
    source = Reading(quotient, (total, weight))
    update = functions.refreshed(source, {"fc/input": damping}, "")
    assert update.type == "StatefulPartitionedCall"
    expected = compute(tf.cast(moment / 4, dtype), damping, tf.zeros(moment.shape, dtype)).matrix
    session.run(v1.global_variables_initializer())
    expected = session.run(tf.cast(expected, kept))
    for paths in ([0, 0, 0], [0, 0, 1]):
        session.run(update)
        np.testing.assert_array_equal(session.run(slot.read()), expected)
        np.testing.assert_array_equal(session.run(slot.read_rare_paths()), paths)
        session.run(v1.assign(weight, 0.0))  # Nothing usable: the function is kept.
