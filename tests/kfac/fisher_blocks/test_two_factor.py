import numpy as np
import pytest
import tensorflow as tf

import kfac
from kfac.fisher_blocks import ConvKFCBasicFB, FullyConnectedKFACBasicFB
from kfac.patches.geometry import ConvGeometry

v1 = tf.compat.v1


def moment(rows):
    return rows.T @ rows / len(rows)


def damped_inverses(a, g, damping):
    """The inverses that a block should keep, in NumPy."""
    pi = np.sqrt((np.trace(a) / len(a)) / (np.trace(g) / len(g)))
    root = np.sqrt(damping)
    return (
        np.linalg.inv(a + pi * root * np.eye(len(a))),
        np.linalg.inv(g + root / pi * np.eye(len(g))),
    )


def run_updates(session, block):
    """Makes all variables of a block and updates averages, then inverses, once."""
    block.register_inverse()
    for factor in block.factors:
        factor.instantiate_cov_variables()
        factor.instantiate_inv_variables()
    averages = [factor.make_covariance_update_op(0.9) for factor in block.factors]
    inverses = [factor.make_inverse_update_ops() for factor in block.factors]
    session.run(v1.global_variables_initializer())
    session.run(averages)
    session.run(inverses)


@pytest.fixture
def dense(graph):
    random = np.random.RandomState(0)
    x, gradient = random.randn(6, 3), 5 * random.randn(6, 2)
    params = (
        v1.get_variable("fc/w", [3, 2], tf.float64),
        v1.get_variable("fc/b", [2], tf.float64),
    )
    block = FullyConnectedKFACBasicFB(kfac.LayerCollection(), params)
    block.register_additional_tower(tf.constant(x), tf.constant(gradient))
    block.instantiate_factors([[tf.constant(gradient)]], 0.3)
    a, g = moment(np.hstack([x, np.ones([6, 1])])), moment(gradient)
    return block, a, g


def test_dense_product(dense, session):
    block, a, g = dense
    run_updates(session, block)
    w, b = np.arange(6.0).reshape(3, 2), np.array([-1.0, 2.0])
    found = session.run(block.multiply_inverse((tf.constant(w), tf.constant(b))))
    a_inverse, g_inverse = damped_inverses(a, g, 0.3)
    expected = a_inverse @ np.vstack([w, b]) @ g_inverse
    np.testing.assert_allclose(found[0], expected[:3], rtol=1e-10)
    np.testing.assert_allclose(found[1], expected[3], rtol=1e-10)


def test_product_solves_the_damped_block(dense, session):
    block, a, g = dense
    run_updates(session, block)
    v = np.random.RandomState(1).randn(4, 2)
    w, b = session.run(block.multiply_inverse((tf.constant(v[:3]), tf.constant(v[3]))))
    pi = np.sqrt((np.trace(a) / 4) / (np.trace(g) / 2))
    damped = np.kron(a + pi * 0.3**0.5 * np.eye(4), g + 0.3**0.5 / pi * np.eye(2))
    np.testing.assert_allclose(damped @ np.vstack([w, b]).ravel(), v.ravel(), rtol=1e-10)


def test_full_block(dense, session):
    block, a, g = dense
    run_updates(session, block)
    np.testing.assert_allclose(session.run(block.full_fisher_block()), np.kron(a, g), rtol=1e-12)


@pytest.mark.parametrize("static", [True, False])
def test_conv_product(graph, session, static):
    random = np.random.RandomState(0)
    images, gradient = random.randn(2, 4, 3, 2), random.randn(2, 4, 3, 5)
    x = (
        tf.constant(images)
        if static
        else v1.placeholder_with_default(images, [None, None, None, 2])
    )
    kernel = v1.get_variable("conv/w", [1, 1, 2, 5], tf.float64)
    geometry = ConvGeometry((1, 1), (1, 1), "VALID")
    block = ConvKFCBasicFB(kfac.LayerCollection(), kernel, geometry)
    block.register_additional_tower(x, tf.constant(gradient))
    block.instantiate_factors([[tf.constant(gradient)]], 0.6)
    run_updates(session, block)
    a, g, locations = moment(images.reshape(-1, 2)), moment(gradient.reshape(-1, 5)), 12
    a_inverse, g_inverse = damped_inverses(a, g, 0.6 / locations)
    v = random.randn(1, 1, 2, 5)
    found = session.run(block.multiply_inverse(tf.constant(v)))
    expected = a_inverse @ v.reshape(2, 5) @ g_inverse / locations
    np.testing.assert_allclose(found.reshape(2, 5), expected, rtol=1e-10)
    full = session.run(block.full_fisher_block())
    np.testing.assert_allclose(full, locations * np.kron(a, g), rtol=1e-12)


def test_product_before_the_first_inverse_is_zero(dense, session):
    block, _, _ = dense
    block.register_inverse()
    for factor in block.factors:
        factor.instantiate_inv_variables()
    session.run(v1.global_variables_initializer())
    found = session.run(block.multiply_inverse((tf.ones([3, 2]), tf.ones([2]))))
    assert not found[0].any()
    assert not found[1].any()


def test_half_precision_vectors_come_back_in_half_precision(dense):
    block, _, _ = dense
    block.register_inverse()
    for factor in block.factors:
        factor.instantiate_inv_variables()
    w, b = block.multiply_inverse((tf.ones([3, 2], tf.float16), tf.ones([2], tf.float16)))
    assert (w.dtype, b.dtype) == (tf.float16, tf.float16)


def test_factors_before_they_are_made(graph):
    block = FullyConnectedKFACBasicFB(kfac.LayerCollection(), v1.get_variable("fc/w", [2, 2]))
    with pytest.raises(ValueError, match=r"Layer 'fc/w' has no factors yet"):
        _ = block.input_factor


def test_description(dense):
    assert dense[0].describe() == "kron 4x4 (x) 2x2"
    assert dense[0].matrix_shape == (4, 2)


@pytest.mark.parametrize(("inputs", "outputs"), [([5, 4], [5, 2]), ([5, 3], [5, 3])])
def test_tensors_that_do_not_fit_the_parameters(graph, inputs, outputs):
    block = FullyConnectedKFACBasicFB(kfac.LayerCollection(), v1.get_variable("fc/w", [3, 2]))
    block.register_additional_tower(tf.ones(inputs), tf.ones(outputs))
    block.instantiate_factors([[tf.ones(outputs)]], 0.1)
    with pytest.raises(ValueError, match=r"layer 'fc/w'.*need Kronecker factors of 3x3 \(x\) 2x2"):
        block.check_shapes()


def test_unregistered_product_is_an_error(dense):
    block, _, _ = dense
    with pytest.raises(ValueError, match=r"'fc/w/input' does not keep 'cholesky'"):
        block.multiply_cholesky((tf.ones([3, 2]), tf.ones([2])))
