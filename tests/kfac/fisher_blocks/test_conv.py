import functools

import numpy as np
import pytest
import tensorflow as tf

from kfac.config import CurvatureConfig
from kfac.fisher_blocks import ConvKFCBasicFB, DepthwiseConvKFCBasicFB

v1 = tf.compat.v1
broad = pytest.mark.broad


@pytest.mark.parametrize(("towers", "first"), [(3, False), pytest.param(1, True, marks=broad)])
def test_two_dimensions(laboratory, reference_patches, moment, towers, first):
    random = np.random.RandomState(0)
    x, g = random.randn(6, 4, 5, 2), random.randn(6, 2, 3, 3)
    lab = laboratory()
    params = lab.variable("conv/w", [3, 2, 2, 3]), lab.variable("conv/b", [3])
    order, strides = ([0, 3, 1, 2], (1, 1, 2, 2)) if first else ([0, 1, 2, 3], (1, 2, 2, 1))
    method = functools.partial(
        lab.collection.register_conv2d, params, strides, "same",
        data_format="NCHW" if first else None,
    )  # fmt: skip
    parts = lab.register(method, x.transpose(order), g.transpose(order), towers)
    block = lab.instantiate([parts])
    p = np.concatenate(reference_patches(x, (3, 2), (2, 2), "SAME", (1, 1)))
    a = moment(np.hstack([p, np.ones([len(p), 1])]))
    lab.check_kronecker(block, a, moment(g.reshape(-1, 3)), 6)
    assert block.describe() == "kron 13x13 (x) 3x3"


def test_images_of_unknown_size(laboratory, moment):
    random = np.random.RandomState(0)
    images, g = random.randn(2, 4, 3, 2), random.randn(2, 4, 3, 5)
    lab = laboratory()
    x = v1.placeholder_with_default(images, [None, None, None, 2])
    kernel = lab.variable("conv/w", [1, 1, 2, 5])
    lab.collection.register_conv2d(kernel, (1, 1, 1, 1), "VALID", x, tf.constant(g))
    block = lab.instantiate([[g]])
    lab.check_kronecker(block, moment(images.reshape(-1, 2)), moment(g.reshape(-1, 5)), 12)


@pytest.mark.parametrize("dimensions", [1, 3])
def test_other_dimensions(laboratory, reference_patches, moment, dimensions):
    random = np.random.RandomState(0)
    lab = laboratory()
    if dimensions == 1:
        # The third of three locations sees one zero after the six pixels.
        x, g = random.randn(4, 6, 2), random.randn(4, 3, 3)
        args = lab.variable("conv/w", [3, 2, 3]), (1, 2, 1), "SAME", tf.constant(x), tf.constant(g)
        lab.collection.register_conv1d(*args)
        p = reference_patches(x, (3,), (2,), "SAME", (1,))
    else:
        x, g = random.randn(2, 5, 4, 5, 1), random.randn(2, 3, 3, 2, 2)
        p = reference_patches(x, (2, 2, 3), (1, 1, 2), "VALID", (2, 1, 1))
        x, g = (array.transpose(0, 4, 1, 2, 3) for array in (x, g))
        args = lab.variable("conv/w", [2, 2, 3, 1, 2]), tf.constant(x), tf.constant(g), "VALID"
        lab.collection.register_convolution(*args, (1, 1, 2), (2, 1, 1), data_format="NCDHW")
    block = lab.instantiate([[g]], exponents=())
    rows = g.reshape(-1, 3) if dimensions == 1 else np.moveaxis(g, 1, -1).reshape(-1, 2)
    expected = p.shape[1] * np.kron(moment(np.concatenate(p)), moment(rows))
    np.testing.assert_allclose(lab.session.run(block.full_fisher_block()), expected, atol=1e-12)


def test_diagonal_block_of_three_towers(laboratory, reference_patches):
    random = np.random.RandomState(0)
    x, g = random.randn(6, 4, 5, 2), random.randn(6, 3, 4, 3)
    lab = laboratory()
    params = lab.variable("conv/w", [2, 2, 2, 3]), lab.variable("conv/b", [3])
    args = params, (1, 1, 1, 1), "VALID"
    method = functools.partial(lab.collection.register_conv2d, *args, approx="diagonal")
    block = lab.instantiate([lab.register(method, x, g, 3)])
    p = reference_patches(x, (2, 2), (1, 1), "VALID", (1, 1))
    p = np.concatenate([p, np.ones([6, 12, 1])], axis=2)
    diagonal = (np.einsum("ntd,nto->ndo", p, g.reshape(6, 12, 3)) ** 2).mean(0).ravel()
    v = random.randn(27)
    np.testing.assert_allclose(lab.product(block.multiply_inverse, v), v / (diagonal + 0.3))


def test_depthwise_and_separable(laboratory, reference_patches):
    random = np.random.RandomState(0)
    x, g, y = random.randn(3, 4, 4, 2), random.randn(3, 4, 4, 6), random.randn(3, 4, 4, 5)
    lab = laboratory()
    depthwise = lab.variable("depthwise/w", [3, 3, 2, 3])
    pointwise = lab.variable("pointwise/w", [1, 1, 6, 5])
    tensors = map(tf.constant, (x, g, y))
    lab.collection.register_separable_conv2d(
        depthwise, pointwise, *tensors, (1, 1, 1, 1), "SAME", rate=(2, 1)
    )
    first, second = lab.collection.get_blocks()
    assert isinstance(second, ConvKFCBasicFB)
    first.instantiate_factors([[tf.constant(g)]], 0.3)
    first.check_shapes()
    p = reference_patches(x, (3, 3), (1, 1), "SAME", (2, 1)).reshape(3, 16, 9, 2)
    per_example = np.einsum("ntkc,ntcm->nkcm", p, g.reshape(3, 16, 2, 3))
    found = lab.session.run(first.factor.batch_statistic())
    np.testing.assert_allclose(found, (per_example**2).mean(0).ravel(), rtol=1e-10)


def embedded(filters):
    """A depthwise filter [h, w, c, m] as an ordinary one [h, w, c, c · m]."""
    height, width, channels, multiplier = filters.shape
    found = np.zeros([height, width, channels, channels, multiplier])
    for channel in range(channels):
        found[:, :, channel, channel] = filters[:, :, channel]
    return found.reshape(height, width, channels, -1)


@pytest.mark.parametrize(("towers", "first"), [(3, False), pytest.param(1, True, marks=broad)])
def test_depthwise_kronecker_block_equals_the_embedded_filter(
    laboratory, reference_patches, moment, towers, first
):
    random = np.random.RandomState(0)
    x, g = random.randn(6, 5, 4, 2), random.randn(6, 3, 2, 6)
    lab = laboratory()
    kernel = lab.variable("depthwise/w", [3, 2, 2, 3])
    order, strides = ([0, 3, 1, 2], (1, 1, 2, 2)) if first else ([0, 1, 2, 3], (1, 2, 2, 1))
    method = functools.partial(
        lab.collection.register_depthwise_conv2d, kernel, strides=strides, padding="SAME",
        data_format="NCHW" if first else "NHWC", approx="kron",
    )  # fmt: skip
    parts = lab.register(method, x.transpose(order), g.transpose(order), towers)
    block = lab.instantiate([parts], 0.3, (-1, -0.5), cholesky=True)
    assert isinstance(block, DepthwiseConvKFCBasicFB)
    assert block.describe() == "kron 12x12 (x) 6x6"
    p = np.concatenate(reference_patches(x, (3, 2), (2, 2), "SAME", (1, 1)))
    a, g = moment(p), moment(g.reshape(-1, 6))
    own = np.flatnonzero(embedded(np.ones([3, 2, 2, 3])))
    full = lab.session.run(block.full_fisher_block())
    np.testing.assert_allclose(full, 6 * np.kron(a, g)[np.ix_(own, own)], rtol=1e-10, atol=1e-12)
    pi, root = np.sqrt((np.trace(a) / 12) / (np.trace(g) / 6)), np.sqrt(0.3 / 6)
    damped = 6 * np.kron(a + pi * root * np.eye(12), g + root / pi * np.eye(6))
    values, vectors = np.linalg.eigh(damped)
    lower = np.linalg.cholesky(damped)
    cases = (
        (block.multiply_inverse, np.linalg.inv(damped)),
        (block.multiply, damped),
        (lambda v: block.multiply_matpower(v, -0.5), vectors / values**0.5 @ vectors.T),
        (block.multiply_cholesky, lower),
        (lambda v: block.multiply_cholesky(v, transpose=True), lower.T),
        (block.multiply_cholesky_inverse, np.linalg.inv(lower)),
    )
    v = random.randn(3, 2, 2, 3)
    found = lab.products([call for call, _ in cases], v.ravel())
    expected = [(matrix @ embedded(v).ravel())[own] for _, matrix in cases]
    np.testing.assert_allclose(found, expected, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize(
    ("zero_mean", "has_bias"), [(False, True), pytest.param(True, False, marks=broad)]
)
def test_uncorrelated_activations(laboratory, moment, solution, zero_mean, has_bias):
    random = np.random.RandomState(0)
    x, g = 0.5 + random.randn(5, 4, 4, 2), random.randn(5, 4, 4, 3)
    lab = laboratory(CurvatureConfig(zero_mean_activations=zero_mean))
    kernel, bias = lab.variable("conv/w", [3, 3, 2, 3]), lab.variable("conv/b", [3])
    args = (kernel, bias) if has_bias else kernel, (1, 1, 1, 1), "SAME"
    method = functools.partial(lab.collection.register_conv2d, *args, approx="kron_sua")
    block = lab.instantiate([lab.register(method, x, g, 3)])
    assert block.input_factor.inverse_bytes == 8 * 2 * 2
    pixels = x.reshape(-1, 2)
    mean = np.zeros(2) if zero_mean else pixels.mean(0)
    a = np.kron(np.eye(9), moment(pixels) - np.outer(mean, mean))
    m = np.tile(mean, 9)
    if has_bias:
        a, m = np.pad(a, [[0, 1], [0, 1]]), np.append(m, 1.0)
    a += np.outer(m, m)
    g = moment(g.reshape(-1, 3))
    np.testing.assert_allclose(lab.session.run(block.input_factor.cov), a, atol=1e-12)
    v = random.randn(len(a) * 3)
    solved, damped = lab.products([block.multiply_inverse, block.multiply], v)
    np.testing.assert_allclose(solved, solution(a, g, v, 16), rtol=1e-8)
    np.testing.assert_allclose(solution(a, g, damped, 16), v, rtol=1e-8)
    # Before the first inverse:
    lab.session.run(v1.global_variables_initializer())
    assert not lab.product(block.multiply_inverse, v).any()
