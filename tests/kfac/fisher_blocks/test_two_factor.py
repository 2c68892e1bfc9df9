"""Blocks of two factors: registered towers, split damping, and products with functions of both."""

import numpy as np
import pytest
import tensorflow as tf

import kfac
from kfac.fisher_blocks import ConvKFCBasicFB, FisherBlock, FullyConnectedKFACBasicFB
from kfac.fisher_blocks.base import as_tuple
from kfac.fisher_blocks.kronecker_product import KroneckerOperator, SplitDamping
from kfac.fisher_factors import FullyConnectedKroneckerFactor
from kfac.fisher_factors.base import updated_inverses
from kfac.linalg.linear_operator import DenseOperator, DiagonalOperator
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


@pytest.fixture
def update(update_factors):
    """Updates averages and inverses of a block once."""

    def run(block):
        block.register_inverse()
        update_factors(*block.factors)

    return run


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


def test_dense_product(dense, session, update):
    block, a, g = dense
    update(block)
    w, b = np.arange(6.0).reshape(3, 2), np.array([-1.0, 2.0])
    found = session.run(block.multiply_inverse((tf.constant(w), tf.constant(b))))
    a_inverse, g_inverse = damped_inverses(a, g, 0.3)
    expected = a_inverse @ np.vstack([w, b]) @ g_inverse
    np.testing.assert_allclose(found[0], expected[:3], rtol=1e-10)
    np.testing.assert_allclose(found[1], expected[3], rtol=1e-10)


def test_product_solves_the_damped_block(dense, session, update):
    block, a, g = dense
    update(block)
    v = np.random.RandomState(1).randn(4, 2)
    w, b = session.run(block.multiply_inverse((tf.constant(v[:3]), tf.constant(v[3]))))
    pi = np.sqrt((np.trace(a) / 4) / (np.trace(g) / 2))
    damped = np.kron(a + pi * 0.3**0.5 * np.eye(4), g + 0.3**0.5 / pi * np.eye(2))
    np.testing.assert_allclose(damped @ np.vstack([w, b]).ravel(), v.ravel(), rtol=1e-10)


def test_full_block(dense, session, update):
    block, a, g = dense
    update(block)
    np.testing.assert_allclose(session.run(block.full_fisher_block()), np.kron(a, g), rtol=1e-12)


@pytest.mark.parametrize("static", [True, False])
def test_conv_product(graph, session, static, update):
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
    update(block)
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


@pytest.fixture
def trained(laboratory):
    """A dense layer with all that can be registered, its damped factors in NumPy."""
    random = np.random.RandomState(0)
    x, g = random.randn(9, 2), random.randn(9, 3)
    lab = laboratory()
    params = lab.variable("fc/w", [2, 3]), lab.variable("fc/b", [3])
    tensors = tf.constant(x[np.newaxis]), tf.constant(g[np.newaxis])
    # The same rows as one use of nine, so that c is one, and as nine uses, so that it is nine.
    lab.collection.register_fully_connected_multi(
        params, tf.reshape(tensors[0], [9, 1, 2]), tf.reshape(tensors[1], [9, 1, 3])
    )
    block = lab.instantiate([[g.reshape(9, 1, 3)]], 0.3, (-1, -0.5, 0.5), cholesky=True)
    a, g = moment(np.hstack([x, np.ones([9, 1])])), moment(g)
    pi = np.sqrt((np.trace(a) / 3) / (np.trace(g) / 3))
    root = np.sqrt(0.3 / 9)
    return lab, block, a + pi * root * np.eye(3), g + root / pi * np.eye(3)


def symmetric_power(matrix, exponent):
    values, vectors = np.linalg.eigh(matrix)
    return (vectors * values**exponent) @ vectors.T


def test_powers_and_cholesky_factors(trained):
    lab, block, a, g = trained
    v = np.random.RandomState(1).randn(9)
    for exponent in (-1, -0.5, 0.5, 1):
        expected = symmetric_power(9 * np.kron(a, g), exponent) @ v
        found = lab.product(block.multiply_matpower, v, exponent)
        np.testing.assert_allclose(found, expected, rtol=1e-9)
    root = 3 * np.kron(np.linalg.cholesky(a), np.linalg.cholesky(g))
    np.testing.assert_allclose(root @ root.T, 9 * np.kron(a, g), rtol=1e-10, atol=1e-12)
    for multiply, factor in (
        (block.multiply_cholesky, root),
        (block.multiply_cholesky_inverse, np.linalg.inv(root)),
    ):
        np.testing.assert_allclose(lab.product(multiply, v), factor @ v, rtol=1e-9)
        found = lab.product(multiply, v, transpose=True)
        np.testing.assert_allclose(found, factor.T @ v, rtol=1e-9)


def test_powers_share_one_eigendecomposition(trained, graph):
    _, block, _, _ = trained
    before = set(graph.get_operations())
    updated_inverses([block.input_factor], [""])
    new = [op for op in graph.get_operations() if op not in before]
    eigen = [op for op in new if op.type == "SelfAdjointEigV2"]
    assert len(eigen) == 1


@pytest.mark.parametrize("transpose", [False, True])
def test_product_with_factored_rows(graph, session, transpose):
    left, right, x, d = np.random.RandomState(0).randn(4, 3, 3)
    scale = tf.constant(2.0, tf.float64)
    operator = KroneckerOperator(
        DenseOperator(tf.constant(left)), DenseOperator(tf.constant(right)), scale,
        (tf.float64, tf.float64), transpose,
    )  # fmt: skip
    whole = operator.multiply(tf.constant(x.T @ d))
    found = session.run([whole, operator.multiply_row_product(tf.constant(x), tf.constant(d))])
    expected = 2 * (left.T @ x.T @ d @ right if transpose else left @ x.T @ d @ right.T)
    np.testing.assert_allclose(found, [expected] * 2, rtol=1e-10)


def test_product_with_rows_needs_a_diagonal(graph, session):
    values, right = np.random.RandomState(0).randn(2, 2, 2)
    rows = tf.IndexedSlices(tf.constant(values), tf.constant([2, 0]), tf.constant([3, 2]))
    scale, right = tf.constant(2.0, tf.float64), DenseOperator(tf.constant(right))
    diagonal = DiagonalOperator(tf.constant([1.0, 2, 3], tf.float64))
    dtypes = tf.float64, tf.float64
    found = KroneckerOperator(diagonal, right, scale, dtypes, False).multiply_slices(rows)
    whole = KroneckerOperator(diagonal, right, scale, dtypes, False).multiply(
        tf.constant(np.stack([values[1], np.zeros(2), values[0]]))
    )
    found, indices, whole = session.run([found.values, found.indices, whole])
    np.testing.assert_allclose(found, whole[indices], rtol=1e-12)
    assert KroneckerOperator(right, right, scale, dtypes, False).multiply_slices(rows) is None


def test_damping_without_balance(laboratory):
    random = np.random.RandomState(0)
    x, g = random.randn(6, 2), random.randn(6, 3)
    lab = laboratory(kfac.CurvatureConfig(balance_damping=False, damping_power=0.0))
    lab.collection.register_fully_connected_multi(
        lab.variable("fc/w", [2, 3]), [tf.constant(x)] * 2, [tf.constant(g)] * 2
    )
    block = lab.instantiate([[g, g]], damping=0.09)
    v = random.randn(6)
    damped = 2 * np.kron(moment(x) + 0.3 * np.eye(2), moment(g) + 0.3 * np.eye(3))
    expected = np.linalg.solve(damped, v)
    np.testing.assert_allclose(lab.product(block.multiply_inverse, v), expected, rtol=1e-10)


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        # tr A / dim A = 4 and tr G / dim G = 1, so that pi = 2; 0.36 / 9 = 0.2².
        (kfac.CurvatureConfig(), (0.4, 0.1)),
        (kfac.CurvatureConfig(balance_damping=False), (0.2, 0.2)),
        (kfac.CurvatureConfig(damping_power=0.0), (1.2, 0.3)),
    ],
)
def test_split_by_traces_and_uses(graph, session, config, expected):
    factors = []
    for name, rows in (("input", 2 * np.eye(2)), ("output", np.eye(2))):
        tensors = ((tf.constant(np.sqrt(2) * rows),),)
        factors.append(FullyConnectedKroneckerFactor(tensors, False, ("",), name=f"fc/{name}"))
        factors[-1].instantiate_cov_variables()
    split = SplitDamping("fc", tuple(factors), 0.36, lambda: 9, config)
    assert (split.of_input.name, split.of_output.name) == ("fc/input", "fc/output")
    averages = [factor.make_covariance_update_op(0.9) for factor in factors]
    found = split.of_input.value(), split.of_output.value()
    session.run(v1.global_variables_initializer())
    session.run(averages)
    np.testing.assert_allclose(session.run(found), expected, rtol=1e-12)


def test_is_abstract(graph):
    with pytest.raises(TypeError, match=r"abstract"):
        FisherBlock(kfac.LayerCollection(), v1.get_variable("w", [2, 2]))


def test_as_tuple():
    assert as_tuple(("w", "b")) == as_tuple(["w", "b"]) == ("w", "b")
    assert as_tuple("w") == ("w",)


@pytest.mark.parametrize("has_bias", [False, True])
def test_towers(graph, has_bias):
    w, b = v1.get_variable("fc/w", [2, 3]), v1.get_variable("fc/b", [3])
    block = FullyConnectedKFACBasicFB(kfac.LayerCollection(), (w, b) if has_bias else w)
    assert (block.name, block.has_bias, block.num_registered_towers) == ("fc/w", has_bias, 0)
    tensors = []
    for device in ("/cpu:1", "/cpu:3"):
        with v1.device(device):
            tensors.append((tf.ones([4, 2]), tf.ones([4, 3])))
        block.register_additional_tower(*tensors[-1])
    assert block.num_registered_towers == 2
    assert block.inputs == tuple(x for x, _ in tensors)
    assert block.tensors_to_compute_grads() == tuple(s for _, s in tensors)
    assert block.devices == ("/device:CPU:1", "/device:CPU:3")
