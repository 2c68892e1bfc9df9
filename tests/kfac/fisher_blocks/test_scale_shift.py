import numpy as np
import pytest
import tensorflow as tf

SIZES = {1: (9,), 3: (2, 3, 4)}


@pytest.mark.parametrize(
    ("towers", "approx", "has_shift"),
    [(1, "full", True), (3, "full", False), (3, "diagonal", True), (1, "diagonal", False)],
)
def test_example_gradients(laboratory, towers, approx, has_shift):
    random = np.random.RandomState(0)
    x, g = random.randn(2, 9, 4, 3)
    lab = laboratory()
    scale, shift = lab.variable("ln/scale", [4, 1]), lab.variable("ln/shift", [3])
    params = (scale, shift) if has_shift else scale
    cuts = np.cumsum(SIZES[towers])[:-1]
    parts = list(zip(np.split(x, cuts), np.split(g, cuts), strict=True))
    for tower, (a, b) in enumerate(parts):
        register = lab.collection.register_layer_norm
        register(params, tf.constant(a), tf.constant(b), approx, tower > 0)
    block = lab.instantiate([[b for _, b in parts]])
    r = (x * g).sum(2)
    if has_shift:
        r = np.hstack([r, g.sum(1)])
    matrix = r.T @ r / 9
    if approx == "diagonal":
        matrix = np.diag(np.diag(matrix))
    np.testing.assert_allclose(lab.session.run(block.full_fisher_block()), matrix, atol=1e-12)
    v = random.randn(len(matrix))
    expected = np.linalg.solve(matrix + 0.3 * np.eye(len(v)), v)
    np.testing.assert_allclose(lab.product(block.multiply_inverse, v), expected, rtol=1e-10)
