import functools

import numpy as np
import pytest
import tensorflow as tf

from kfac.fisher_blocks import ConvEKFACFB, FullyConnectedEKFACFB

v1 = tf.compat.v1


def eigenvectors(a, g):
    return np.kron(np.linalg.eigh(a)[1], np.linalg.eigh(g)[1])


def test_functions_of_a_dense_layer(laboratory, moment):
    random = np.random.RandomState(0)
    x = random.randn(40, 3)
    g = random.randn(40, 2) * (0.1 + x[:, :1] ** 2)
    lab = laboratory()
    params = lab.variable("fc/w", [3, 2]), lab.variable("fc/b", [2])
    lab.collection.register_fully_connected(params, tf.constant(x), tf.constant(g), "ekfac")
    block = lab.instantiate([[g]], 0.3, ())
    assert isinstance(block, FullyConnectedEKFACFB)
    rows = np.hstack([x, np.ones([40, 1])])
    a, b = moment(rows), moment(g)
    full = lab.session.run(block.full_fisher_block())
    np.testing.assert_allclose(full, np.kron(a, b), rtol=1e-8, atol=1e-10)
    lab.session.run(block.factors[-1].make_covariance_update_op(0.0))
    vectors = eigenvectors(a, b)
    gradients = np.einsum("ni,no->nio", rows, g).reshape(40, 8)
    s = ((gradients @ vectors) ** 2).mean(0)
    full = lab.session.run(block.full_fisher_block())
    np.testing.assert_allclose(full, (vectors * s) @ vectors.T, rtol=1e-8, atol=1e-10)
    v = np.random.RandomState(1).randn(8)
    exponents = (-1, -0.5, 1, 2)
    found = lab.products([lambda v, e=e: block.multiply_matpower(v, e) for e in exponents], v)
    expected = [(vectors * (s + 0.3) ** e) @ vectors.T @ v for e in exponents]
    np.testing.assert_allclose(found, expected, rtol=1e-8)

    def squared(v):
        return block.multiply_cholesky(block.multiply_cholesky(v, transpose=True))

    def unchanged(v, transpose):
        product = block.multiply_cholesky(v, transpose)
        return block.multiply_cholesky_inverse(product, transpose)

    calls = [squared, *(functools.partial(unchanged, transpose=t) for t in (False, True))]
    np.testing.assert_allclose(lab.products(calls, v), [expected[2], v, v], rtol=1e-8)


def test_products_of_a_convolution_over_three_towers(laboratory, reference_patches, moment):
    random = np.random.RandomState(0)
    x, g = random.randn(6, 4, 5, 2), random.randn(6, 3, 4, 3)
    lab = laboratory()
    kernel = lab.variable("conv/w", [2, 2, 2, 3])
    args = kernel, (1, 1, 1, 1), "VALID"
    method = functools.partial(lab.collection.register_conv2d, *args, approx="ekfac")
    block = lab.instantiate([lab.register(method, x, g, 3)], 0.3, ())
    assert isinstance(block, ConvEKFACFB)
    assert block.describe() == "ekfac 8x8 (x) 3x3"
    p = reference_patches(x, (2, 2), (1, 1), "VALID", (1, 1))
    a, b = moment(np.concatenate(p)), moment(g.reshape(-1, 3))
    full = lab.session.run(block.full_fisher_block())
    np.testing.assert_allclose(full, 12 * np.kron(a, b), rtol=1e-8, atol=1e-10)
    lab.session.run(block.factors[-1].make_covariance_update_op(0.0))
    gradients = np.einsum("nti,nto->nio", p, g.reshape(6, 12, 3)).reshape(6, 24)
    vectors, v = eigenvectors(a, b), random.randn(24)
    s = ((gradients @ vectors) ** 2).mean(0)
    expected = (vectors / (s + 0.3)) @ vectors.T @ v
    np.testing.assert_allclose(lab.product(block.multiply_inverse, v), expected, rtol=1e-8)


def test_half_precision(laboratory):
    random = np.random.RandomState(0)
    x, g = (tf.constant(random.randn(4, 3, 3, n), tf.bfloat16) for n in (2, 3))
    lab = laboratory()
    kernel = lab.variable("conv/w", [2, 2, 2, 3], tf.bfloat16)
    lab.collection.register_conv2d(kernel, (1, 1, 1, 1), "SAME", x, g, approx="ekfac")
    block = lab.instantiate([[g]], 0.3, ())
    assert {factor.dtype for factor in block.factors} == {tf.float32}
    v = tf.constant(random.randn(2, 2, 2, 3), tf.bfloat16)
    product = block.multiply_inverse(v)
    assert product.dtype == tf.bfloat16
    wide = [tf.cast(t, tf.float32) for t in (product, v)]
    found, v, full = lab.session.run([*wide, block.full_fisher_block()])
    expected = np.linalg.solve(full + 0.3 * np.eye(24), v.ravel())
    np.testing.assert_allclose(found.ravel(), expected, rtol=2e-2, atol=2e-2)


def test_other_convolutions(laboratory):
    lab = laboratory()
    first, second = (lab.variable(f"{name}/w", [3, 2, 3]) for name in "ab")
    tensors = tf.ones([4, 7, 2], tf.float64), tf.ones([4, 7, 3], tf.float64)
    lab.collection.register_conv1d(first, (1, 1, 1), "SAME", *tensors, approx="ekfac")
    lab.collection.register_convolution(second, *tensors, "SAME", approx="ekfac")
    for block in lab.collection.get_blocks():
        assert isinstance(block, ConvEKFACFB)
        assert block.replications() == 7


def test_ids_are_refused(laboratory):
    lab = laboratory()
    args = lab.variable("table", [3, 2]), tf.constant([0]), tf.ones([1, 2])
    with pytest.raises(ValueError, match=r"approx='ekfac' and dense_inputs=False"):
        lab.collection.register_fully_connected(*args, "ekfac", False)
