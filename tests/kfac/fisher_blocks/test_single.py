"""Blocks of one factor: whole matrices and diagonals, of any parameters and of scale and shift."""

import functools

import numpy as np
import pytest
import tensorflow as tf

import kfac
from kfac.curvature.block_products import product_or_identity
from kfac.fisher_blocks.single import diagonal_product
from kfac.linalg.damped_functions import INVERSE

v1 = tf.compat.v1


@pytest.mark.parametrize("approx", ["full", "diagonal"])
def test_functions_of_scale_and_shift(laboratory, approx):
    x, g = np.random.RandomState(0).randn(2, 7, 3)
    lab = laboratory()
    params = lab.variable("ln/scale", [3]), lab.variable("ln/shift", [3])
    lab.collection.register_scale_and_shift(params, tf.constant(x), tf.constant(g), approx=approx)
    made = lab.instantiate([[g]], damping=0.3, exponents=(-1, -0.5, 2), cholesky=True)
    r = np.hstack([x * g, g])
    matrix = r.T @ r / 7
    if approx == "diagonal":
        matrix = np.diag(np.diag(matrix))
    lab.check_functions(made, matrix + 0.3 * np.eye(6), (-1, -0.5, 1, 2))
    found = lab.session.run(made.full_fisher_block())
    np.testing.assert_allclose(found, matrix, rtol=1e-12, atol=1e-14)
    assert made.describe() == ("diagonal 6" if approx == "diagonal" else "full 6x6")


def test_factors_wider_than_inverses(laboratory):
    lab = laboratory(kfac.CurvatureConfig(factor_dtype=tf.float64, inverse_dtype=tf.float32))
    params = lab.variable("ln/scale", [3], "float32"), lab.variable("ln/shift", [3], "float32")
    x, g = np.float32([[1, 2, 3]]), np.float32([[3, 2, 1]])
    lab.collection.register_scale_and_shift(params, tf.constant(x), tf.constant(g))
    made = lab.instantiate([[g]], damping=0.5, exponents=(-1, 1), cholesky=True)
    vector = tf.constant([0.0, 1.0, 2.0]), tf.constant([3.0, 4.0, 5.0])
    unchanged = (
        made.multiply_inverse(made.multiply(vector)),
        made.multiply_cholesky_inverse(made.multiply_cholesky(vector)),
    )
    for found in lab.session.run(unchanged):
        assert {part.dtype for part in found} == {np.dtype("float32")}
        np.testing.assert_allclose(np.hstack(found), np.arange(6), rtol=1e-4, atol=1e-4)


def test_full_block_of_generic_parameters_in_three_towers(laboratory):
    random = np.random.RandomState(0)
    lab = laboratory()
    params = lab.variable("a", [2, 2]), lab.variable("b", [3])
    for tower in range(3):
        lab.collection.register_generic(params, 4, approx="full", reuse=tower > 0)
    sources = [[random.randn(2, 2), random.randn(3)] for _ in range(2)]
    block = lab.instantiate(sources, damping=0.2)
    flat = [np.concatenate([g.ravel() for g in source]) for source in sources]
    matrix = sum(np.outer(g, g) for g in flat) / 12
    np.testing.assert_allclose(lab.session.run(block.full_fisher_block()), matrix, rtol=1e-12)
    v = random.randn(7)
    expected = np.linalg.solve(matrix + 0.2 * np.eye(7), v)
    np.testing.assert_allclose(lab.product(block.multiply_inverse, v), expected, rtol=1e-10)
    assert block.tensors_to_compute_grads() == params


def test_batch_sizes_of_towers_known_at_run_time(laboratory):
    lab = laboratory()
    param = lab.variable("a", [3])
    for tower, size in enumerate((2, tf.constant(4))):
        lab.collection.register_generic(param, size, reuse=tower > 0)
    gradient = np.array([1.0, 2.0, -4.0])
    block = lab.instantiate([[gradient]], damping=0.5)
    v = np.array([3.0, -1.0, 2.0])
    expected = v / (gradient**2 / 6 + 0.5)
    np.testing.assert_allclose(lab.product(block.multiply_inverse, v), expected, rtol=1e-12)
    assert block.describe() == "diagonal 3"


@pytest.mark.parametrize(
    ("towers", "approx", "has_shift"), [(3, "full", True), (1, "diagonal", False)]
)
def test_scale_and_shift_of_other_shapes(laboratory, towers, approx, has_shift):
    random = np.random.RandomState(0)
    x, g = random.randn(2, 9, 4, 3)
    lab = laboratory()
    scale, shift = lab.variable("ln/scale", [4, 1]), lab.variable("ln/shift", [3])
    params = (scale, shift) if has_shift else scale
    method = functools.partial(lab.collection.register_layer_norm, params, approx=approx)
    block = lab.instantiate([lab.register(method, x, g, towers)])
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


@pytest.mark.parametrize(
    ("eigenvalue", "degree", "adapts"), [(None, -1, True), (4.0, -0.5, False), (4.0, -1, True)]
)
def test_diagonal_product(graph, session, eigenvalue, degree, adapts):
    random = np.random.RandomState(0)
    first, second = random.randn(2, 3), random.randn(4).astype("float32")
    total = random.rand(10).astype("float32")
    weight = v1.placeholder(tf.float32, [])
    damping = tf.identity(tf.constant(0.3)) if adapts else 0.3
    parts = [tf.constant(first), tf.constant(second)]
    products = diagonal_product(
        tf.constant(total), weight, tuple(parts), damping=damping, eigenvalue=eigenvalue,
        degree=degree, dtype=tf.float64,
    )  # fmt: skip
    assert [p.dtype for p in products] == [tf.float64, tf.float32]
    known = np.split((total / 0.5 + 0.3) ** degree, [6])
    for found, part, power in zip(
        session.run(products, {weight: 0.5}), (first, second), known, strict=True
    ):
        np.testing.assert_allclose(found, power.reshape(part.shape) * part, rtol=1e-5)
    for found, part in zip(session.run(products, {weight: 0.0}), (first, second), strict=True):
        np.testing.assert_array_equal(found, (eigenvalue or 0.0) * part)


def test_diagonal_product_is_zero_where_the_average_is_not_finite(graph, session):
    average, parts = (tf.constant([1.0, np.nan]), tf.constant(1.0)), (tf.ones([2]),)
    (product,) = diagonal_product(
        *average, parts, damping=0.1, eigenvalue=2.0, degree=-1, dtype=tf.float32
    )
    np.testing.assert_array_equal(session.run(product), [0, 0])


def test_diagonal_blocks_take_one_operation(session, laboratory, made_ops):
    lab = laboratory()
    x, g = np.random.RandomState(0).randn(2, 7, 3)
    params = lab.variable("scale", [3]), lab.variable("shift", [3])
    lab.collection.register_scale_and_shift(params, tf.constant(x), tf.constant(g), "diagonal")
    block = lab.instantiate([[g]])
    v = np.random.RandomState(1).randn(2, 3)
    vector = tf.constant(v[0]), tf.constant(v[1])
    products, types = made_ops(lambda: product_or_identity(block, INVERSE, vector))
    assert types == ["PartitionedCall", "ReadVariableOp", "ReadVariableOp"]
    average = np.mean(np.hstack([x * g, g]) ** 2, axis=0)
    np.testing.assert_allclose(np.ravel(session.run(products)), v.ravel() / (average + 0.3))
    # Before the first statistic the average counts as ones.
    session.run([v1.assign(each, each * 0) for each in block.factor.cov_variables[:2]])
    np.testing.assert_allclose(session.run(products), v / 1.3, rtol=1e-6)


class DoublesInputs(kfac.fisher_blocks.SingleFactorBlock):
    """A block of a program's own, which changes what it is given."""

    is_diagonal = True
    settings = ()

    @property
    def inputs(self):
        return tuple(2 * tensor for tensor in super().inputs)

    def _make_factor(self, grads_list):
        raise NotImplementedError


def test_inputs_may_be_overridden(graph, session):
    block = DoublesInputs(kfac.LayerCollection(), v1.get_variable("w", [3, 2]))
    block.register_additional_tower(tf.constant([[1.0, 2.0, 3.0]]), tf.zeros([1, 2]))
    assert session.run(block.inputs)[0].tolist() == [[2, 4, 6]]
    block.remove_last_tower()
    assert (block.inputs, block.num_registered_towers) == ((), 0)
