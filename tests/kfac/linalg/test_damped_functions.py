import dataclasses
import typing

import numpy as np
import pytest
import tensorflow as tf

import kfac
from kfac.estimator import FisherEstimator
from kfac.linalg import damped_matrix
from kfac.linalg.damped_functions import MatrixFunction

v1 = tf.compat.v1


@dataclasses.dataclass(frozen=True)
class Whitening(MatrixFunction):
    """W = (S + d·I)^(−½) Uᵀ of M = U S Uᵀ, so that WᵀW is the damped inverse."""

    has_left_vectors: typing.ClassVar[bool] = False
    uses_eigenvalues: typing.ClassVar[bool] = True

    @property
    def name(self):
        return "whitening"

    @property
    def degree(self):
        return -0.5

    def __str__(self):
        return "whitening"

    def compute(self, undamped, damping, previous):
        values, vectors, is_usable = undamped.eigen
        found = tf.transpose(vectors * (values + damping) ** -0.5)
        return damped_matrix.DampedMatrix(
            tf.where(is_usable, found, previous), tf.zeros([3], tf.int64)
        )


def register_dense(approx):
    def register(collection, random):
        params = [
            v1.get_variable(name, initializer=tf.constant(random.randn(*shape)))
            for name, shape in (("w", [3, 2]), ("b", [2]))
        ]
        inputs = tf.constant(random.randn(9, 3))
        outputs = inputs @ params[0] + params[1]
        collection.register_fully_connected(tuple(params), inputs, outputs, approx)
        return outputs

    return register


def register_scale_and_shift(approx):
    def register(collection, random):
        params = [v1.get_variable(name, initializer=tf.constant(random.randn(2))) for name in "wb"]
        inputs = tf.constant(random.randn(9, 2))
        outputs = inputs * params[0] + params[1]
        collection.register_scale_and_shift(tuple(params), inputs, outputs, approx)
        return outputs

    return register


@pytest.mark.parametrize(
    "register",
    [*map(register_dense, ("kron_in_diag", "diagonal", "ekfac")), register_scale_and_shift("full")],
)
def test_new_function_is_one_class(graph, session, register):
    """Every kind of factor and block multiplies by a function that none of them knows."""
    collection, random = kfac.LayerCollection(), np.random.RandomState(0)
    outputs = register(collection, random)
    collection.register_squared_error_loss(outputs, targets=tf.constant(random.randn(9, 2)))
    estimator = FisherEstimator(
        None, 0.9, 0.1, collection, estimation_mode="empirical", functions=[Whitening()]
    )
    with v1.control_dependencies([estimator.make_cov_update_op()]):
        update = estimator.make_inv_update_op()
    pairs = [(tf.constant(random.randn(*v.shape)), v) for v in estimator.variables]
    white = estimator.multiply_function(Whitening(), pairs)
    again = estimator.multiply_function(Whitening(), white, transpose=True)
    expected = estimator.multiply_inverse(pairs)
    session.run(v1.global_variables_initializer())
    session.run(update)
    found, expected = session.run([[v for v, _ in again], [v for v, _ in expected]])
    assert any(array.any() for array in expected)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-8, atol=1e-10)


def test_structured_blocks_refuse_a_new_function(graph):
    collection = kfac.LayerCollection()
    inputs, outputs = (tf.ones([2, 4, 4, n]) for n in (2, 3))
    kernel = v1.get_variable("conv/w", [3, 3, 2, 3])
    args = kernel, (1, 1, 1, 1), "SAME", inputs, outputs
    collection.register_conv2d(*args, approx="kron_sua")
    (block,) = collection.get_blocks()
    block.instantiate_factors([[outputs]], 0.1)
    with pytest.raises(ValueError, match=r"Cannot compute the whitening of factor 'conv/w/input'"):
        block.register(Whitening())
