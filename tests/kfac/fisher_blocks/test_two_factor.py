"""Blocks of two factors: registered towers, split damping, functions of both, and their errors."""

import numpy as np
import pytest
import tensorflow as tf

import kfac
from kfac.fisher_blocks import (
    FullyConnectedDiagonalFB,
    FullyConnectedEKFACFB,
    FullyConnectedKFACBasicFB,
)
from kfac.fisher_blocks.kronecker_product import KroneckerOperator, SplitDamping
from kfac.fisher_factors import FullyConnectedKroneckerFactor
from kfac.linalg.linear_operator import DenseOperator

v1 = tf.compat.v1


@pytest.mark.parametrize(
    ("cls", "read"),
    [
        (FullyConnectedKFACBasicFB, lambda block: block.input_factor),
        (FullyConnectedKFACBasicFB, lambda block: block.register_inverse()),
        (FullyConnectedDiagonalFB, lambda block: block.factor),
        (FullyConnectedEKFACFB, lambda block: block.eigenbasis_factor),
    ],
)
def test_factors_before_they_are_made(graph, cls, read):
    block = cls(kfac.LayerCollection(), v1.get_variable("fc/w", [2, 2]))
    assert block.made_factors == ()
    with pytest.raises(ValueError, match=r"Layer 'fc/w' has no factors yet"):
        read(block)


def test_tensors_that_do_not_fit_the_parameters(graph):
    weight = v1.get_variable("fc/w", [3, 2])
    two = r"layer 'fc/w'.*need Kronecker factors of 3x3 \(x\) 2x2"
    one = r"layer 'fc/w': its parameters have 6 entries.*for 8"
    for cls, inputs, outputs, message in (
        (FullyConnectedKFACBasicFB, [5, 4], [5, 2], two),
        (FullyConnectedKFACBasicFB, [5, 3], [5, 3], two),
        (FullyConnectedDiagonalFB, [5, 4], [5, 2], one),
    ):
        block = cls(kfac.LayerCollection(), weight)
        block.register_additional_tower(tf.ones(inputs), tf.ones(outputs))
        block.instantiate_factors([[tf.ones(outputs)]], 0.1)
        with pytest.raises(ValueError, match=message):
            block.check_shapes()


def test_sparse_gradients_are_refused(graph):
    sparse = tf.IndexedSlices(tf.ones([1, 2]), tf.constant([0]), tf.constant([3, 2]))
    for cls in (FullyConnectedKFACBasicFB, FullyConnectedEKFACFB):
        block = cls(kfac.LayerCollection(), v1.get_variable(f"{cls.__name__}/w", [3, 2]))
        block.register_additional_tower(tf.ones([5, 3]), tf.ones([5, 2]))
        block.instantiate_factors([[tf.ones([5, 2])]], 0.1)
        block.register_inverse()
        for factor in block.factors:
            factor.instantiate_cov_variables()
            factor.instantiate_inv_variables()
        assert not block.multiplies_slices
        with pytest.raises(ValueError, match=rf"sparse gradients of layer '{block.name}'.*in_diag"):
            block.multiply_inverse(sparse)


def test_towers(graph):
    params = v1.get_variable("fc/w", [2, 3]), v1.get_variable("fc/b", [3])
    block = FullyConnectedKFACBasicFB(kfac.LayerCollection(), params)
    assert (block.name, block.has_bias, block.num_registered_towers) == ("fc/w", True, 0)
    tensors = []
    for device in ("/cpu:1", "/cpu:3"):
        with v1.device(device):
            tensors.append((tf.ones([4, 2]), tf.ones([4, 3])))
        block.register_additional_tower(*tensors[-1])
    assert block.num_registered_towers == 2
    assert block.inputs == tuple(x for x, _ in tensors)
    assert block.tensors_to_compute_grads() == tuple(s for _, s in tensors)
    assert block.devices == ("/device:CPU:1", "/device:CPU:3")


def test_powers_and_cholesky_factors(laboratory, moment):
    random = np.random.RandomState(0)
    x, g = random.randn(9, 2), random.randn(9, 3)
    lab = laboratory()
    params = lab.variable("fc/w", [2, 3]), lab.variable("fc/b", [3])
    # Nine uses of one row each, so that T is nine.
    uses = x.reshape(9, 1, 2), g.reshape(9, 1, 3)
    lab.collection.register_fully_connected_multi(params, *map(tf.constant, uses))
    block = lab.instantiate([[uses[1]]], 0.3, (-1, -0.5, 0.5), cholesky=True)
    a, g = moment(np.hstack([x, np.ones([9, 1])])), moment(g)
    pi, root = np.sqrt(np.trace(a) / np.trace(g)), np.sqrt(0.3 / 9)
    damped = 9 * np.kron(a + pi * root * np.eye(3), g + root / pi * np.eye(3))
    lab.check_functions(block, damped, (-1, -0.5, 0.5, 1))


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


def test_split_by_traces_and_uses(graph, update_factors, session):
    factors = []
    for name, rows in (("input", 2 * np.eye(2)), ("output", np.eye(2))):
        tensors = ((tf.constant(np.sqrt(2) * rows),),)
        factors.append(FullyConnectedKroneckerFactor(tensors, False, ("",), name=f"fc/{name}"))
    update_factors(*factors)
    found = []
    for config in (
        kfac.CurvatureConfig(),
        kfac.CurvatureConfig(balance_damping=False),
        kfac.CurvatureConfig(damping_power=0.0),
    ):
        split = SplitDamping("fc", tuple(factors), 0.36, lambda: 9, config)
        assert (split.of_input.name, split.of_output.name) == ("fc/input", "fc/output")
        found.append([split.of_input.value(), split.of_output.value()])
    # tr A / dim A = 4 and tr G / dim G = 1, so that pi = 2; 0.36 / 9 = 0.2².
    expected = [(0.4, 0.1), (0.2, 0.2), (1.2, 0.3)]
    np.testing.assert_allclose(session.run(found), expected, rtol=1e-12)
