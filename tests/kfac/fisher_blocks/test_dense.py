import functools

import numpy as np
import pytest
import tensorflow as tf

import kfac
from kfac.fisher_factors import DiagonalKroneckerFactor

broad = pytest.mark.broad


def register(lab, params, x, g, towers=1, **kwargs):
    method = functools.partial(lab.collection.register_fully_connected, params, **kwargs)
    return lab.register(method, x, g, towers)


def test_layers_with_the_same_input_share_its_factor_but_not_its_inverse(graph):
    collection, x = kfac.LayerCollection(), tf.ones([4, 3])
    for name in ("a/w", "b/w"):
        weight = tf.compat.v1.get_variable(name, [3, 2])
        collection.register_fully_connected(weight, x, tf.ones([4, 2]))
    first, second = collection.get_blocks()
    for block in (first, second):
        block.instantiate_factors([[tf.ones([4, 2])]], 0.1)
        block.register_inverse()
    assert first.input_factor is second.input_factor
    assert first.output_factor is not second.output_factor
    first.input_factor.instantiate_inv_variables()
    names = [variable.op.name for variable in first.input_factor.inv_variables]
    assert names[0] == "kfac/a/w/input/inverse"
    assert names[2] == "kfac/b/w/input/inverse"


@pytest.mark.parametrize(
    ("approx", "towers"),
    [
        ("kron", 3),
        ("kron_in_diag", 1),
        ("kron_out_diag", 3),
        pytest.param("kron_both_diag", 1, marks=broad),
        ("diagonal", 3),
    ],
)
def test_approximations(laboratory, moment, approx, towers):
    random = np.random.RandomState(0)
    x, g, v = random.randn(12, 4), random.randn(12, 3), random.randn(15)
    lab = laboratory()
    params = lab.variable("fc/w", [4, 3]), lab.variable("fc/b", [3])
    block = lab.instantiate([register(lab, params, x, g, towers, approx=approx)])
    rows = np.hstack([x, np.ones([12, 1])])
    if approx == "diagonal":
        diagonal = moment(np.einsum("ni,no->nio", rows, g).reshape(12, -1)).diagonal()
        full = lab.session.run(block.full_fisher_block())
        np.testing.assert_allclose(full, np.diag(diagonal), rtol=1e-12)
        found = lab.product(block.multiply_inverse, v)
        np.testing.assert_allclose(found, v / (diagonal + 0.3), rtol=1e-9)
        return
    a, g = moment(rows), moment(g)
    if approx in {"kron_in_diag", "kron_both_diag"}:
        a = np.diag(a.diagonal())
    if approx in {"kron_out_diag", "kron_both_diag"}:
        g = np.diag(g.diagonal())
    lab.check_kronecker(block, a, g)


def test_sources_of_the_diagonal_block_are_summed(laboratory):
    random = np.random.RandomState(0)
    x, sources = random.randn(12, 2), random.randn(2, 12, 3)
    lab = laboratory()
    register(lab, lab.variable("fc/w", [2, 3]), x, sources[0], approx="diagonal")
    block = lab.instantiate([[g] for g in sources])
    expected = sum((x**2).T @ g**2 for g in sources) / 12
    found = lab.session.run(block.factor.value)
    np.testing.assert_allclose(found, expected.ravel(), rtol=1e-12)


def test_embedding(laboratory, moment):
    random = np.random.RandomState(0)
    ids, g = random.randint(0, 5, 12), random.randn(12, 3)
    lab = laboratory()
    table = lab.variable("embedding", [6, 3])
    block = lab.instantiate(
        [register(lab, table, ids, g, 3, dense_inputs=False)], exponents=(-1, -0.5)
    )
    assert isinstance(block.input_factor, DiagonalKroneckerFactor)
    lab.check_kronecker(block, np.diag(np.bincount(ids, minlength=6) / 12), moment(g))
    # Rows that come more than once.
    assert block.multiplies_slices
    rows, indices = random.randn(4, 3), np.array([4, 0, 4, 2])
    sparse = tf.IndexedSlices(tf.constant(rows), tf.constant(indices), tf.constant([6, 3]))
    products = [block.multiply_matpower(sparse, exponent) for exponent in (-1, -0.5, 1)]
    assert all(product.indices is sparse.indices for product in products)
    dense = tf.convert_to_tensor(sparse)
    expected = [block.multiply_matpower(dense, exponent) for exponent in (-1, -0.5, 1)]
    found, expected = lab.session.run([list(map(tf.convert_to_tensor, products)), expected])
    np.testing.assert_allclose(found, expected, rtol=1e-10)


def test_half_precision_layers_have_wider_factors(laboratory, moment, solution):
    random = np.random.RandomState(0)
    x, g = (tf.constant(random.randn(12, n), tf.bfloat16) for n in (3, 2))
    lab = laboratory()
    params = lab.variable("fc/w", [3, 2], tf.bfloat16)
    lab.collection.register_fully_connected(params, x, g)
    block = lab.instantiate([[g]])
    for factor in block.factors:
        assert (factor.dtype, factor.inverse_dtype) == (tf.float32, tf.float32)
    v = np.arange(6.0).reshape(3, 2)
    product = block.multiply_inverse(tf.constant(v, tf.bfloat16))
    assert product.dtype == tf.bfloat16
    found, x, g = lab.session.run([tf.cast(t, tf.float64) for t in (product, x, g)])
    expected = solution(moment(x), moment(g), v.ravel())
    np.testing.assert_allclose(found.ravel(), expected, rtol=2e-2, atol=2e-2)


@pytest.mark.parametrize(
    "approx", ["kron", pytest.param("kron_in_diag", marks=broad), "kron_both_diag"]
)
def test_factors_wider_than_inverses(laboratory, approx):
    lab = laboratory(kfac.CurvatureConfig(factor_dtype=tf.float64, inverse_dtype=tf.float32))
    params = lab.variable("fc/w", [3, 2], "float32")
    random = np.random.RandomState(0)
    x, g = (random.randn(12, n).astype(np.float32) for n in (3, 2))
    block = lab.instantiate([register(lab, params, x, g, approx=approx)], exponents=(-1, 1))
    kept = [v.dtype.base_dtype for f in block.factors for v in f.inv_variables[::2]]
    assert kept == [tf.float32] * {"kron": 2, "kron_in_diag": 1, "kron_both_diag": 0}[approx]
    assert {f.cov_variables[0].dtype.base_dtype for f in block.factors} == {tf.float64}
    v = np.arange(6, dtype=np.float32).reshape(3, 2)
    damped = block.multiply(tf.constant(v))
    solved = block.multiply_inverse(damped)
    assert {damped.dtype, solved.dtype} == {tf.float32}
    np.testing.assert_allclose(lab.session.run(solved), v, rtol=1e-4, atol=1e-4)
