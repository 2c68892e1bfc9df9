import numpy as np
import pytest
import tensorflow as tf

import kfac
from kfac.fisher_blocks import FullyConnectedKFACBasicFB
from kfac.fisher_blocks.dense import DenseForm
from kfac.fisher_factors import DiagonalKroneckerFactor, FullyConnectedKroneckerFactor

v1 = tf.compat.v1

SIZES = {1: (12,), 3: (4, 2, 6)}


def make(collection, name, x):
    block = FullyConnectedKFACBasicFB(collection, v1.get_variable(name, [3, 2]))
    gradient = tf.ones([4, 2])
    block.register_additional_tower(x, tf.ones([4, 2]))
    block.instantiate_factors([[gradient]], 0.1)
    block.register_inverse()
    return block


def moment(rows):
    return rows.T @ rows / len(rows)


def damped_solution(a, g, v, damping=0.3):
    pi = np.sqrt((np.trace(a) / len(a)) / (np.trace(g) / len(g)))
    root = np.sqrt(damping)
    return np.linalg.solve(
        np.kron(a + pi * root * np.eye(len(a)), g + root / pi * np.eye(len(g))), v
    )


def register(lab, params, x, g, towers, **kwargs):
    cuts = np.cumsum(SIZES[towers])[:-1]
    parts = np.split(x, cuts), np.split(g, cuts)
    for tower, (a, b) in enumerate(zip(*parts, strict=True)):
        tensors = tf.constant(a), tf.constant(b)
        lab.collection.register_fully_connected(params, *tensors, reuse=tower > 0, **kwargs)
    return parts[1]


def test_factors(graph):
    block = make(kfac.LayerCollection(), "fc/w", tf.ones([4, 3]))
    assert all(isinstance(factor, FullyConnectedKroneckerFactor) for factor in block.factors)
    assert [factor.name for factor in block.factors] == ["fc/w/input", "fc/w/output"]
    assert [factor.dimension for factor in block.factors] == [3, 2]
    assert (block.replications(), block.settings) == (1, ())


def test_layers_with_the_same_input_share_its_factor_but_not_its_inverse(graph):
    collection, x = kfac.LayerCollection(), tf.ones([4, 3])
    first, second = make(collection, "a/w", x), make(collection, "b/w", x)
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
        ("kron_both_diag", 1),
        ("diagonal", 3),
    ],
)
def test_approximations(laboratory, approx, towers):
    random = np.random.RandomState(0)
    x, g = random.randn(12, 4), random.randn(12, 3)
    lab = laboratory()
    params = lab.variable("fc/w", [4, 3]), lab.variable("fc/b", [3])
    block = lab.instantiate([register(lab, params, x, g, towers, approx=approx)])
    rows = np.hstack([x, np.ones([12, 1])])
    a, g_moment, v = moment(rows), moment(g), random.randn(15)
    if approx == "diagonal":
        diagonal = moment(np.einsum("ni,no->nio", rows, g).reshape(12, -1)).diagonal()
        expected, full = v / (diagonal + 0.3), np.diag(diagonal)
    else:
        a = np.diag(a.diagonal()) if approx in {"kron_in_diag", "kron_both_diag"} else a
        if approx in {"kron_out_diag", "kron_both_diag"}:
            g_moment = np.diag(g_moment.diagonal())
        expected, full = damped_solution(a, g_moment, v), np.kron(a, g_moment)
    np.testing.assert_allclose(lab.product(block.multiply_inverse, v), expected, rtol=1e-9)
    found = lab.session.run(block.full_fisher_block())
    np.testing.assert_allclose(found, full, rtol=1e-12, atol=1e-14)


def test_sources_of_the_diagonal_block_are_summed(laboratory):
    random = np.random.RandomState(0)
    x, sources = random.randn(12, 2), random.randn(2, 12, 3)
    lab = laboratory()
    register(lab, lab.variable("fc/w", [2, 3]), x, sources[0], 1, approx="diagonal")
    block = lab.instantiate([[g] for g in sources])
    expected = sum((x**2).T @ g**2 for g in sources) / 12
    found = lab.session.run(block.factor.value)
    np.testing.assert_allclose(found, expected.ravel(), rtol=1e-12)


@pytest.mark.parametrize(("approx", "towers"), [(None, 3), ("kron_both_diag", 1)])
def test_embedding(laboratory, approx, towers):
    random = np.random.RandomState(0)
    ids, g = random.randint(0, 5, 12), random.randn(12, 3)
    lab = laboratory()
    params = lab.variable("embedding", [6, 3])
    parts = register(lab, params, ids, g, towers, approx=approx, dense_inputs=False)
    block = lab.instantiate([parts])
    assert isinstance(block.input_factor, DiagonalKroneckerFactor)
    a = np.diag(np.bincount(ids, minlength=6) / 12)
    g = moment(g) if approx is None else np.diag(moment(g).diagonal())
    v = random.randn(18)
    expected = damped_solution(a, g, v)
    np.testing.assert_allclose(lab.product(block.multiply_inverse, v), expected, rtol=1e-10)


def test_sparse_gradient_of_an_embedding(laboratory):
    random = np.random.RandomState(0)
    ids, g = random.randint(0, 5, 12), random.randn(12, 3)
    lab = laboratory()
    params = lab.variable("embedding", [6, 3])
    register(lab, params, ids, g, 1, dense_inputs=False)
    block = lab.instantiate([[g]], exponents=(-1, -0.5))
    assert block.multiplies_slices
    rows, indices = random.randn(4, 3), np.array([4, 0, 4, 2])
    sparse = tf.IndexedSlices(tf.constant(rows), tf.constant(indices), tf.constant([6, 3]))
    for exponent in (-1, -0.5, 1):
        product = block.multiply_matpower(sparse, exponent)
        dense = block.multiply_matpower(tf.convert_to_tensor(sparse), exponent)
        assert product.indices is sparse.indices
        found, expected = lab.session.run([tf.convert_to_tensor(product), dense])
        np.testing.assert_allclose(found, expected, rtol=1e-10)


def test_sparse_gradient_of_a_dense_factor(laboratory):
    lab = laboratory()
    params = lab.variable("fc/w", [2, 3])
    register(lab, params, np.ones([12, 2]), np.ones([12, 3]), 1)
    block = lab.instantiate([[np.ones([12, 3])]])
    assert not block.multiplies_slices
    sparse = tf.IndexedSlices(tf.ones([1, 3], tf.float64), tf.constant([0]), tf.constant([2, 3]))
    with pytest.raises(ValueError, match=r"sparse gradients of layer 'fc/w'.*kron_in_diag"):
        block.multiply_inverse(sparse)


@pytest.mark.parametrize("dtype", [tf.bfloat16, tf.float16])
def test_half_precision_layers_have_wider_factors(laboratory, dtype, update_factors):
    random = np.random.RandomState(0)
    x, g = (tf.constant(random.randn(12, n), dtype) for n in (3, 2))
    lab = laboratory()
    params = lab.variable("fc/w", [3, 2], dtype)
    lab.collection.register_fully_connected(params, x, g)
    (block,) = lab.collection.get_blocks()
    block.instantiate_factors([[g]], 0.3)
    block.register_inverse()
    for factor in block.factors:
        assert (factor.dtype, factor.inverse_dtype) == (tf.float32, tf.float32)
    update_factors(*block.factors)
    v = np.arange(6.0).reshape(3, 2)
    product = block.multiply_inverse(tf.constant(v, dtype))
    assert product.dtype == dtype
    found, x, g = lab.session.run([tf.cast(t, tf.float64) for t in (product, x, g)])
    expected = damped_solution(moment(x), moment(g), v.ravel())
    np.testing.assert_allclose(found.ravel(), expected, rtol=2e-2, atol=2e-2)


@pytest.mark.parametrize("approx", ["kron_in_diag", "kron_out_diag", "kron_both_diag"])
def test_diagonals_wider_than_inverses(laboratory, approx):
    lab = laboratory(kfac.CurvatureConfig(factor_dtype=tf.float64, inverse_dtype=tf.float32))
    params = lab.variable("fc/w", [3, 2], "float32")
    random = np.random.RandomState(0)
    x, g = (random.randn(12, n).astype(np.float32) for n in (3, 2))
    block = lab.instantiate([register(lab, params, x, g, 1, approx=approx)], exponents=(-1, 1))
    v = np.arange(6, dtype=np.float32).reshape(3, 2)
    products = block.multiply_inverse(tf.constant(v)), block.multiply(tf.constant(v))
    assert {product.dtype for product in products} == {tf.float32}
    inverse, damped = lab.session.run(products)
    assert np.isfinite(inverse).all()
    np.testing.assert_allclose(
        lab.session.run(block.multiply_inverse(tf.constant(damped))), v, rtol=1e-4, atol=1e-4
    )


def test_dtypes_of_factors_and_inverses_can_be_chosen(laboratory):
    lab = laboratory(kfac.CurvatureConfig(factor_dtype=tf.float64, inverse_dtype=tf.float32))
    params = lab.variable("fc/w", [3, 2], "float32")
    x, g = np.ones([12, 3], "f"), np.ones([12, 2], "f")
    register(lab, params, x, g, 1)
    block = lab.instantiate([[g]])
    assert {f.cov_variables[0].dtype.base_dtype for f in block.factors} == {tf.float64}
    assert {f.inv_variables[0].dtype.base_dtype for f in block.factors} == {tf.float32}
    product = block.multiply_inverse(tf.ones([3, 2]))
    assert product.dtype == tf.float32


def test_other_form_in_another_tower(laboratory):
    lab = laboratory()
    params = lab.variable("fc/w", [2, 3])
    register(lab, params, np.ones([12, 2]), np.ones([12, 3]), 1)
    (block,) = lab.collection.get_blocks()
    assert block.settings == ()
    tensors = tf.ones([4, 2], tf.float64), tf.ones([4, 3], tf.float64)
    with pytest.raises(ValueError, match=r"All towers must register the same layer"):
        lab.collection.register_fully_connected(params, *tensors, "kron_in_diag", reuse=True)
    assert DenseForm(diagonal_input=True) != DenseForm()
