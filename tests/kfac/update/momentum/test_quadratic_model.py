"""The model of a linear softmax layer, whose curvature NumPy has in closed form."""

import numpy as np
import pytest
import tensorflow as tf

import kfac
from kfac.linalg.vectors import joined
from kfac.update.momentum.qmodel import ExactCurvature, QuadraticModel

v1 = tf.compat.v1

RANDOM = np.random.RandomState(0)
X, W = RANDOM.randn(6, 3), RANDOM.randn(3, 2)
LABELS = RANDOM.randint(0, 2, 6)
D, U, G = RANDOM.randn(3, 3, 2)


def fisher():
    """The mean over examples of x xᵀ ⊗ (diag p − p pᵀ)."""
    p = np.exp(X @ W)
    p /= p.sum(1, keepdims=True)
    blocks = [
        np.kron(np.outer(x, x), np.diag(q) - np.outer(q, q)) for x, q in zip(X, p, strict=True)
    ]
    return np.mean(blocks, axis=0)


def linear_model(towers=1, coeff=1.0):
    w = v1.get_variable("w", initializer=W)
    collection = kfac.LayerCollection()
    for tower, (x, y) in enumerate(zip(np.split(X, towers), np.split(LABELS, towers), strict=True)):
        with v1.variable_scope("", reuse=tower > 0), v1.device(f"/cpu:{tower}"):
            logits = tf.matmul(tf.constant(x), w)
            collection.register_softmax_cross_entropy_loss(
                logits, targets=tf.constant(y), name="loss", coeff=coeff
            )
    return collection, w


def constants(*arrays):
    return [tf.constant(array) for array in arrays]


def model_arguments():
    d, u, g = constants(D, U, G)
    return joined([d], tf.float64), joined([u], tf.float64), [g]


@pytest.mark.parametrize(
    ("towers", "batch_size", "mat_type"),
    [(1, 6, "GGN"), (2, None, "Empirical_Fisher"), (3, 6, "Fisher")],
)
def test_minimum_equals_that_of_the_whole_matrix(graph, session, towers, batch_size, mat_type):
    collection, w = linear_model(towers, coeff=1.5)
    curvature = ExactCurvature(collection, mat_type, batch_size)
    model = curvature.model([w], *model_arguments(), tf.float64)
    damping = tf.constant(0.3, tf.float64)
    minimum = model.minimum(damping)
    session.run(v1.global_variables_initializer())
    found, value = session.run([minimum, model.value(minimum, damping)])

    directions, g = np.stack([D.ravel(), U.ravel()], axis=1), G.ravel()
    matrix = 1.5 * fisher() + 0.3 * np.eye(6)
    expected = np.linalg.solve(directions.T @ matrix @ directions, -directions.T @ g)
    np.testing.assert_allclose(found, expected, rtol=1e-10)
    step = directions @ expected
    np.testing.assert_allclose(value, step @ matrix @ step / 2 + g @ step, rtol=1e-10)


def model_of(curvature, squares, slopes):
    return QuadraticModel(*constants(*(np.array(x, float) for x in (curvature, squares, slopes))))


@pytest.mark.parametrize(
    ("curvature", "slopes", "minimum"),
    [
        ([[2, 0], [0, 0]], [4, 0], [-2, 0]),  # No step before.
        ([[2, 1], [1, 3]], [4, 0], [-2, 0]),  # g·u = 0 although u is not zero.
        ([[2, 4], [4, 8]], [4, 8], [-2, 0]),  # u = 2d.
        ([[2, 4], [4, 8 + 1e-15]], [4, 8], [-2, 0]),  # The same, but for rounding.
        ([[0, 0], [0, 0]], [0, 0], [0, 0]),  # No direction at all.
    ],
)
def test_one_direction_only(graph, session, curvature, slopes, minimum):
    model = model_of(curvature, [[0, 0], [0, 0]], slopes)
    found = session.run(model.minimum(tf.constant(0.0, tf.float64)))
    np.testing.assert_allclose(found, minimum)
