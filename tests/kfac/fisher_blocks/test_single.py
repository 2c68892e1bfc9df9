"""Blocks of one factor: whole matrices and diagonals, of any parameters and of scale and shift."""

import numpy as np
import pytest
import tensorflow as tf

import kfac
from kfac.fisher_blocks import FullyConnectedDiagonalFB, SingleFactorBlock

v1 = tf.compat.v1
SIZES = {1: (9,), 3: (2, 3, 4)}


@pytest.fixture(params=["full", "diagonal"])
def block(request, laboratory):
    """A scale-and-shift layer of three features, with its damped matrix in NumPy."""
    random = np.random.RandomState(0)
    x, g = random.randn(7, 3), random.randn(7, 3)
    lab = laboratory()
    params = lab.variable("ln/scale", [3]), lab.variable("ln/shift", [3])
    tensors = tf.constant(x), tf.constant(g)
    lab.collection.register_scale_and_shift(params, *tensors, approx=request.param)
    made = lab.instantiate([[g]], damping=0.3, exponents=(-1, -0.5, 2), cholesky=True)
    r = np.hstack([x * g, g])
    matrix = r.T @ r / 7
    if request.param == "diagonal":
        matrix = np.diag(np.diag(matrix))
    return lab, made, matrix, random.randn(6)


def test_products(block):
    lab, made, matrix, v = block
    damped = matrix + 0.3 * np.eye(6)
    values, basis = np.linalg.eigh(damped)
    powers = {e: (basis * values**e) @ basis.T for e in (-1, -0.5, 2, 1)}
    for exponent, power in powers.items():
        found = lab.product(made.multiply_matpower, v, exponent)
        np.testing.assert_allclose(found, power @ v)
    np.testing.assert_allclose(lab.product(made.multiply_inverse, v), powers[-1] @ v)
    np.testing.assert_allclose(lab.product(made.multiply, v), damped @ v)
    root = np.linalg.cholesky(damped)
    inverse = np.linalg.inv(root)
    for multiply, factor in (
        (made.multiply_cholesky, root),
        (made.multiply_cholesky_inverse, inverse),
    ):
        np.testing.assert_allclose(lab.product(multiply, v), factor @ v, rtol=1e-10)
        found = lab.product(multiply, v, transpose=True)
        np.testing.assert_allclose(found, factor.T @ v, rtol=1e-10)
    # Undamped:
    found = lab.session.run(made.full_fisher_block())
    np.testing.assert_allclose(found, matrix, rtol=1e-12, atol=1e-14)
    kind = "diagonal 6" if made.is_diagonal else "full 6x6"
    assert made.describe() == kind


@pytest.mark.parametrize("approx", ["full", "diagonal"])
def test_factors_wider_than_inverses(laboratory, approx):
    lab = laboratory(kfac.CurvatureConfig(factor_dtype=tf.float64, inverse_dtype=tf.float32))
    params = lab.variable("ln/scale", [3], "float32"), lab.variable("ln/shift", [3], "float32")
    x, g = np.float32([[1, 2, 3]]), np.float32([[3, 2, 1]])
    tensors = tf.constant(x), tf.constant(g)
    lab.collection.register_scale_and_shift(params, *tensors, approx=approx)
    made = lab.instantiate([[g]], damping=0.5, exponents=(-1, 1), cholesky=True)
    r = np.hstack([x * g, g])
    matrix = (np.diag(r[0] ** 2) if approx == "diagonal" else r.T @ r) + 0.5 * np.eye(6)
    v = np.arange(6, dtype=np.float32)
    vector = tf.constant(v[:3]), tf.constant(v[3:])
    root = np.linalg.cholesky(matrix)
    for product, expected in (
        (made.multiply_inverse(vector), np.linalg.inv(matrix)),
        (made.multiply(vector), matrix),
        (made.multiply_cholesky(vector), root),
        (made.multiply_cholesky_inverse(vector), np.linalg.inv(root)),
    ):
        assert {part.dtype for part in product} == {tf.float32}
        found = np.hstack(lab.session.run(product))
        np.testing.assert_allclose(found, expected @ v, rtol=1e-4, atol=1e-4)


def test_factors_before_they_are_made(graph):
    collection = kfac.LayerCollection()
    block = FullyConnectedDiagonalFB(collection, v1.get_variable("fc/w", [2, 2]))
    assert block.made_factors == ()
    with pytest.raises(ValueError, match=r"Layer 'fc/w' has no factors yet"):
        _ = block.factor


def test_tensors_that_do_not_fit_the_parameters(graph):
    block = FullyConnectedDiagonalFB(kfac.LayerCollection(), v1.get_variable("fc/w", [3, 2]))
    block.register_additional_tower(tf.ones([5, 4]), tf.ones([5, 2]))
    block.instantiate_factors([[tf.ones([5, 2])]], 0.1)
    with pytest.raises(ValueError, match=r"layer 'fc/w': its parameters have 6 entries.*for 8"):
        block.check_shapes()


def test_is_abstract(graph):
    with pytest.raises(TypeError, match=r"abstract"):
        SingleFactorBlock(kfac.LayerCollection(), v1.get_variable("w", [2]))


@pytest.mark.parametrize("towers", [1, 3])
def test_full(laboratory, towers):
    random = np.random.RandomState(0)
    lab = laboratory()
    params = lab.variable("a", [2, 2]), lab.variable("b", [3])
    for tower in range(towers):
        lab.collection.register_generic(params, 4, approx="full", reuse=tower > 0)
    sources = [[random.randn(2, 2), random.randn(3)] for _ in range(2)]
    block = lab.instantiate(sources, damping=0.2)
    flat = [np.concatenate([g.ravel() for g in source]) for source in sources]
    matrix = sum(np.outer(g, g) for g in flat) / (4 * towers)
    np.testing.assert_allclose(lab.session.run(block.full_fisher_block()), matrix, rtol=1e-12)
    v = random.randn(7)
    expected = np.linalg.solve(matrix + 0.2 * np.eye(7), v)
    np.testing.assert_allclose(lab.product(block.multiply_inverse, v), expected, rtol=1e-10)
    assert block.tensors_to_compute_grads() == params


def test_diagonal(laboratory):
    lab = laboratory()
    lab.collection.register_generic(lab.variable("a", [3]), tf.constant(2))
    gradient = np.array([1.0, 2.0, -4.0])
    block = lab.instantiate([[gradient]], damping=0.5)
    v = np.array([3.0, -1.0, 2.0])
    expected = v / (gradient**2 / 2 + 0.5)
    np.testing.assert_allclose(lab.product(block.multiply_inverse, v), expected, rtol=1e-12)
    assert block.describe() == "diagonal 3"


def test_batch_sizes_of_towers_known_at_run_time(laboratory):
    lab = laboratory()
    param = lab.variable("a", [1])
    for tower, size in enumerate((2, tf.constant(4))):
        lab.collection.register_generic(param, size, reuse=tower > 0)
    block = lab.instantiate([[np.array([6.0])]])
    np.testing.assert_allclose(lab.session.run(block.full_fisher_block()), [[6.0]])


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
