import numpy as np
import pytest
import tensorflow as tf

import kfac
from kfac.estimator import FisherEstimator
from kfac.fisher_blocks import ConvEKFACFB, FullyConnectedEKFACFB

v1 = tf.compat.v1


def moment(rows):
    return rows.T @ rows / len(rows)


def eigenvectors(a, g):
    return np.kron(np.linalg.eigh(a)[1], np.linalg.eigh(g)[1])


def correlated(seed):
    """Inputs and gradients of which the Fisher matrix is no Kronecker product."""
    random = np.random.RandomState(seed)
    x = random.randn(40, 3)
    return x, random.randn(40, 2) * (0.1 + x[:, :1] ** 2)


def update_once_more(lab, block):
    """Replaces s by the batch's, in the bases there are."""
    lab.session.run(block.factors[-1].make_covariance_update_op(0.0))


@pytest.fixture
def dense(laboratory):
    """A dense layer with bias, its gradients by example [N, 8] and its eigenvectors."""
    x, g = correlated(0)
    lab = laboratory()
    params = lab.variable("fc/w", [3, 2]), lab.variable("fc/b", [2])
    lab.collection.register_fully_connected(params, tf.constant(x), tf.constant(g), "ekfac")
    block = lab.instantiate([[g]], 0.3, ())
    rows = np.hstack([x, np.ones([40, 1])])
    gradients = np.einsum("ni,no->nio", rows, g).reshape(40, 8)
    return lab, block, gradients, eigenvectors(moment(rows), moment(g))


def test_products_of_a_dense_layer(dense):
    lab, block, gradients, vectors = dense
    update_once_more(lab, block)
    assert isinstance(block, FullyConnectedEKFACFB)
    s = ((gradients @ vectors) ** 2).mean(0)
    full = lab.session.run(block.full_fisher_block())
    np.testing.assert_allclose(full, (vectors * s) @ vectors.T, rtol=1e-8, atol=1e-10)
    v = np.random.RandomState(1).randn(8)
    for exponent in (-1, -0.5, 1, 2):
        expected = (vectors * (s + 0.3) ** exponent) @ vectors.T @ v
        found = lab.product(block.multiply_matpower, v, exponent)
        np.testing.assert_allclose(found, expected, rtol=1e-8)


def test_factors_of_a_damped_block(dense):
    lab, block, _, _ = dense
    update_once_more(lab, block)
    v = np.random.RandomState(1).randn(8)
    root = lab.product(block.multiply_cholesky, v, transpose=True)
    squared = lab.product(block.multiply_cholesky, root)
    np.testing.assert_allclose(squared, lab.product(block.multiply, v), rtol=1e-8)
    for transpose in (False, True):
        product = lab.product(block.multiply_cholesky, v, transpose=transpose)
        found = lab.product(block.multiply_cholesky_inverse, product, transpose=transpose)
        np.testing.assert_allclose(found, v, rtol=1e-8)


def test_begins_as_the_kronecker_product(dense):
    lab, block, _, _ = dense
    a, g = lab.session.run([factor.cov for factor in block.factors[:2]])
    full = lab.session.run(block.full_fisher_block())
    np.testing.assert_allclose(full, np.kron(a, g), rtol=1e-8, atol=1e-10)


def test_products_of_a_convolution_over_three_towers(laboratory, reference_patches):
    random = np.random.RandomState(0)
    x, g = random.randn(6, 4, 5, 2), random.randn(6, 3, 4, 3)
    lab = laboratory()
    kernel = lab.variable("conv/w", [2, 2, 2, 3])
    cuts = (1, 3)
    for tower, part in enumerate(zip(np.split(x, cuts), np.split(g, cuts), strict=True)):
        args = kernel, (1, 1, 1, 1), "VALID", *map(tf.constant, part)
        lab.collection.register_conv2d(*args, approx="ekfac", reuse=tower > 0)
    block = lab.instantiate([np.split(g, cuts)], 0.3, ())
    assert isinstance(block, ConvEKFACFB)
    assert block.describe() == "ekfac 8x8 (x) 3x3"
    p = reference_patches(x, (2, 2), (1, 1), "VALID", (1, 1))
    a, b = moment(np.concatenate(p)), moment(g.reshape(-1, 3))
    full = lab.session.run(block.full_fisher_block())
    np.testing.assert_allclose(full, 12 * np.kron(a, b), rtol=1e-8, atol=1e-10)
    update_once_more(lab, block)
    gradients = np.einsum("nti,nto->nio", p, g.reshape(6, 12, 3)).reshape(6, 24)
    vectors, v = eigenvectors(a, b), random.randn(24)
    s = ((gradients @ vectors) ** 2).mean(0)
    expected = (vectors / (s + 0.3)) @ vectors.T @ v
    np.testing.assert_allclose(lab.product(block.multiply_inverse, v), expected, rtol=1e-8)


@pytest.mark.parametrize("dtype", [tf.bfloat16, tf.float16])
def test_half_precision(laboratory, dtype):
    random = np.random.RandomState(0)
    x, g = (tf.constant(random.randn(4, 3, 3, n), dtype) for n in (2, 3))
    lab = laboratory()
    kernel = lab.variable("conv/w", [2, 2, 2, 3], dtype)
    lab.collection.register_conv2d(kernel, (1, 1, 1, 1), "SAME", x, g, approx="ekfac")
    (block,) = lab.collection.get_blocks()
    block.instantiate_factors([[g]], 0.3)
    for factor in block.factors:
        factor.instantiate_cov_variables()
        factor.instantiate_inv_variables()
    lab.session.run(v1.global_variables_initializer())
    lab.session.run([factor.make_covariance_update_op(0.9) for factor in block.factors])
    lab.session.run(block.eigenbasis_factor.make_inverse_update_ops())
    assert {factor.dtype for factor in block.factors} == {tf.float32}
    v = tf.constant(random.randn(2, 2, 2, 3), dtype)
    product = block.multiply_inverse(v)
    assert product.dtype == dtype
    wide = [tf.cast(t, tf.float32) for t in (product, v)]
    found, v, full = lab.session.run([*wide, block.full_fisher_block()])
    expected = np.linalg.solve(full + 0.3 * np.eye(24), v.ravel())
    np.testing.assert_allclose(found.ravel(), expected, rtol=2e-2, atol=2e-2)


@pytest.mark.parametrize("kind", ["conv1d", "convolution"])
def test_other_convolutions(laboratory, kind):
    lab = laboratory()
    kernel = lab.variable("conv/w", [3, 2, 3])
    random = np.random.RandomState(0)
    x, g = random.randn(4, 7, 2), random.randn(4, 7, 3)
    if kind == "conv1d":
        args = kernel, (1, 1, 1), "SAME", tf.constant(x), tf.constant(g)
        lab.collection.register_conv1d(*args, approx="ekfac")
    else:
        args = kernel, tf.constant(x), tf.constant(g), "SAME"
        lab.collection.register_convolution(*args, approx="ekfac")
    block = lab.instantiate([[g]], 0.3, ())
    assert isinstance(block, ConvEKFACFB)
    assert block.replications() == 7


@pytest.mark.parametrize("seed", range(2))
def test_nearer_to_the_fisher_matrix_than_the_kronecker_product(laboratory, seed):
    x, g = correlated(seed)
    lab = laboratory()
    weight = lab.variable("fc/w", [3, 2])
    lab.collection.register_fully_connected(weight, tf.constant(x), tf.constant(g), "ekfac")
    block = lab.instantiate([[g]], 0.3, ())
    fisher = moment(np.einsum("ni,no->nio", x, g).reshape(40, 6))
    kronecker = np.linalg.norm(lab.session.run(block.full_fisher_block()) - fisher)
    update_once_more(lab, block)
    ekfac = np.linalg.norm(lab.session.run(block.full_fisher_block()) - fisher)
    assert ekfac < 0.95 * kronecker


def test_products_are_zero_before_the_first_bases(laboratory):
    lab = laboratory()
    weight = lab.variable("fc/w", [3, 2])
    g = np.ones([4, 2])
    args = weight, tf.ones([4, 3], tf.float64), tf.constant(g), "ekfac"
    lab.collection.register_fully_connected(*args)
    (block,) = lab.collection.get_blocks()
    assert block.made_factors == ()
    with pytest.raises(ValueError, match=r"Layer 'fc/w' has no factors yet"):
        _ = block.eigenbasis_factor
    block = lab.instantiate([[g]], 0.3, ())
    lab.session.run(v1.global_variables_initializer())
    lab.session.run([factor.make_covariance_update_op(0.9) for factor in block.factors])
    assert not lab.product(block.multiply_inverse, np.ones(6)).any()


def test_sparse_gradients_and_ids_are_refused(dense):
    lab, block, _, _ = dense
    slices = tf.IndexedSlices(tf.ones([1, 2]), tf.constant([0]), tf.constant([3, 2]))
    with pytest.raises(ValueError, match=r"sparse gradients of layer 'fc/w'"):
        block.multiply_inverse(slices)
    ids, outputs = tf.constant([0]), tf.ones([1, 2])
    table = lab.variable("table", [3, 2])
    with pytest.raises(ValueError, match=r"approx='ekfac' and dense_inputs=False"):
        lab.collection.register_fully_connected(table, ids, outputs, "ekfac", False)


@pytest.mark.parametrize("use_resource", [True, False])
def test_inside_an_estimator(graph, session, tmp_path, use_resource):
    """Updates that are due by a condition, in two towers; and going on from a checkpoint."""
    random = np.random.RandomState(0)
    x = v1.placeholder(tf.float32, [8, 3])
    collection = kfac.LayerCollection()
    with v1.variable_scope("", use_resource=use_resource, reuse=v1.AUTO_REUSE):
        for tower, part in enumerate(tf.split(x, 2)):
            weight = v1.get_variable("w", initializer=tf.constant(random.randn(3, 4), tf.float32))
            logits = tf.matmul(part, weight)
            collection.register_fully_connected(weight, part, logits, "ekfac", reuse=tower > 0)
            collection.register_categorical_predictive_distribution(
                logits, name="logits", reuse=tower > 0
            )
        estimator = FisherEstimator(None, 0.9, 0.1, collection)
        due = v1.placeholder(tf.bool, [])
        update = estimator.make_cov_update_op()
        with v1.control_dependencies([update]):
            update = estimator.make_inv_update_op(due)
        product = estimator.multiply_inverse([(tf.ones([3, 4]), weight)])[0][0]
    saver = v1.train.Saver([*estimator.cov_variables, *estimator.inv_variables, weight])
    session.run(v1.global_variables_initializer())
    batches = random.randn(6, 8, 3)

    def run(steps):
        for step in steps:
            session.run(update, {x: batches[step], due: step % 2 == 0})
        return session.run(product)

    first = run(range(3))
    path = saver.save(session, str(tmp_path / "state"))
    expected = run(range(3, 6))
    assert np.isfinite(first).all()
    assert (first != expected).any()
    session.run(v1.global_variables_initializer())
    saver.restore(session, path)
    np.testing.assert_array_equal(session.run(product), first)
    np.testing.assert_array_equal(run(range(3, 6)), expected)
