"""Factors that are matrices, whole, diagonal or structured, and functions of them."""

import numpy as np
import pytest
import tensorflow as tf

from kfac.fisher_factors import (
    ConvInputSUAKroneckerFactor,
    Damping,
    DiagonalFactor,
    FullyConnectedDiagonalFactor,
    FullyConnectedKroneckerFactor,
    FullyConnectedMultiKF,
    MatrixFactor,
)
from kfac.fisher_factors.base import Moment
from kfac.fisher_factors.kept_functions import unsupported_error
from kfac.linalg.damped_functions import Cholesky, Power
from kfac.patches.geometry import ConvGeometry

v1 = tf.compat.v1
X = np.random.RandomState(0).randn(8, 3)
DAMPING = Damping("fc/input", lambda: {"fc/input": tf.constant(0.2, tf.float64)})
GEOMETRY = ConvGeometry((2, 2), (1, 1), "SAME")


def matrix_factor(towers=(X,), devices=("",)):
    tensors = (tuple(map(tf.constant, towers)),)
    return FullyConnectedKroneckerFactor(tensors, False, devices, name="fc/input")


def test_functions_of_a_matrix(graph, session, update_factors):
    factor = matrix_factor()
    for exponent in (-1, -0.5, 1):
        factor.register_matpower(exponent, DAMPING)
    factor.register_cholesky(DAMPING)
    factor.register_cholesky_inverse(DAMPING)
    update_factors(factor)
    assert isinstance(factor, MatrixFactor)
    damped = X.T @ X / 8 + 0.2 * np.eye(3)
    values, vectors = np.linalg.eigh(damped)
    root = np.linalg.cholesky(damped)
    found = session.run(
        {
            "inverse": factor.get_inverse(DAMPING).to_dense(),
            "root": factor.get_matpower(-0.5, DAMPING).to_dense(),
            "itself": factor.get_matpower(1, DAMPING).to_dense(),
            "cholesky": factor.get_cholesky(DAMPING).to_dense(),
            "cholesky_inverse": factor.get_cholesky_inverse(DAMPING).to_dense(),
            "undamped": factor.get_cov_as_linear_operator().to_dense(),
        }
    )
    expected = {
        "inverse": np.linalg.inv(damped),
        "root": (vectors * values**-0.5) @ vectors.T,
        "itself": damped,
        "cholesky": root,
        "cholesky_inverse": np.linalg.inv(root),
        "undamped": X.T @ X / 8,
    }
    for name, value in expected.items():
        np.testing.assert_allclose(found[name], value, rtol=1e-10, atol=1e-12, err_msg=name)
    names = [slot.name for slot in factor.inverses]
    leaves = ("inverse", "power_-0.5", "cholesky", "cholesky_inverse")
    assert names == [f"fc/input/{leaf}" for leaf in leaves]
    assert factor.inverse_cost == 4 * 27
    assert (factor.cov_bytes, factor.inverse_bytes) == (8 * 9, 4 * 8 * 9)


def test_trace_is_computed_where_the_average_is(graph):
    factor = matrix_factor()
    factor.instantiate_cov_variables("/device:CPU:1")
    before = set(graph.get_operations())
    with v1.device("/device:CPU:0"):
        factor.trace()
    devices = {op.device for op in graph.get_operations() if op not in before and op.inputs}
    assert devices == {"/device:CPU:1"}


def test_sums_cross_devices_as_triangles(graph, session):
    parts = [X[:2], X[2:5], X[5:]]
    devices = tuple(f"/device:CPU:{i}" for i in (1, 2, 3))
    with v1.device("/device:CPU:0"):
        statistic = matrix_factor(towers=parts, devices=devices).batch_statistic()
    np.testing.assert_allclose(session.run(statistic), X.T @ X / 8, rtol=1e-12)
    crossing = [
        tensor
        for op in graph.get_operations()
        if op.device == "/device:CPU:0"
        for tensor in op.inputs
        if tensor.device in devices and tensor.dtype == tf.float64
    ]
    # Rows and columns are padded from 3 to 4: ten numbers instead of sixteen.
    assert {tensor.shape.num_elements() for tensor in crossing} == {10}


def test_sums_of_towers_on_one_device_are_not_packed(graph):
    matrix_factor(towers=[X[:2], X[2:]], devices=("/device:CPU:1",) * 2).batch_statistic()
    assert not [op for op in graph.get_operations() if op.type == "MatrixBandPart"]


def test_functions_of_a_diagonal(graph, session, update_factors):
    g = np.random.RandomState(1).randn(8, 2)
    tensors = (((tf.constant(X), tf.constant(g)),),)
    factor = FullyConnectedDiagonalFactor(tensors, False, ("",), name="fc")
    for exponent in (-1, -0.5, 1):
        factor.register_matpower(exponent, DAMPING)
    factor.register_cholesky(DAMPING)
    factor.register_cholesky_inverse(DAMPING)
    assert isinstance(factor, DiagonalFactor)
    update_factors(factor)
    diagonal = ((X**2).T @ g**2 / 8).ravel()
    np.testing.assert_allclose(session.run(factor.trace()), diagonal.sum())
    for operator, expected in (
        (factor.get_matpower(-0.5, DAMPING), (diagonal + 0.2) ** -0.5),
        (factor.get_inverse(DAMPING), 1 / (diagonal + 0.2)),
        (factor.get_matpower(1, DAMPING), diagonal + 0.2),
        (factor.get_cholesky(DAMPING), (diagonal + 0.2) ** 0.5),
        (factor.get_cholesky_inverse(DAMPING), (diagonal + 0.2) ** -0.5),
        (factor.get_cov_as_linear_operator(), diagonal),
    ):
        np.testing.assert_allclose(session.run(operator.to_dense()), np.diag(expected))
    assert (factor.inverses, factor.inv_variables, factor.updated_inverses({})) == ((), (), [])
    assert (factor.inverse_cost, factor.cov_shape) == (6, (6,))
    assert (factor.cov_bytes, factor.inverse_bytes) == (8 * 6, 0)


def test_diagonal_before_any_statistic_gives_zero(graph, session):
    tensors = (((tf.ones([2, 3]), tf.ones([2, 2])),),)
    factor = FullyConnectedDiagonalFactor(tensors, False, ("",), name="fc")
    factor.instantiate_cov_variables()
    session.run(v1.global_variables_initializer())
    assert not session.run(factor.get_inverse(DAMPING).to_dense()).any()


def damping(name):
    return Damping(name, lambda: {name: tf.constant(0.3, tf.float64)})


def test_unknown_functions_of_uncorrelated_activations(graph):
    images = tf.ones([2, 4, 4, 3], tf.float64)
    factor = ConvInputSUAKroneckerFactor(((images,),), GEOMETRY, True, ("",), name="conv/input")
    for ask in (
        factor.register_cholesky,
        factor.register_cholesky_inverse,
        factor.get_cholesky,
        factor.get_cholesky_inverse,
        lambda d: factor.get_matpower(-0.5, d),
    ):
        with pytest.raises(ValueError, match=r"factor 'conv/input': with approx='kron_sua' only"):
            ask(damping("conv/input"))


def test_unknown_functions_of_chains(graph):
    factor = FullyConnectedMultiKF(((tf.ones([5, 2]),),), 1, False, ("",), name="rnn/input")
    with pytest.raises(ValueError, match=r"Cholesky factor of factor 'rnn/input'.*'kron_indep'"):
        factor.register_cholesky(damping("rnn/input"))


def test_error_names_the_function_and_the_remedy():
    error = unsupported_error(
        "power 0.5", "factor 'conv/input'", "only powers 1 and -1", "approx='kron'"
    )
    assert str(error) == (
        "Cannot compute the power 0.5 of factor 'conv/input': only powers 1 and -1 are known. "
        "Register the layer with approx='kron'."
    )


@pytest.mark.parametrize(
    ("device", "functions", "calls"),
    [
        ("", [Power(-1), Cholesky()], 2),
        ("/device:CPU:1", [Power(-1), Cholesky()], 0),
        ("", [Power(-1), Power(-0.5)], 0),
    ],
)
def test_inverses_are_updated_where_the_variables_are(graph, session, device, functions, calls):
    """Elsewhere, or with a shared eigendecomposition, the variables are read beforehand."""
    factor = matrix_factor()
    for function in functions:
        factor.register(function, DAMPING)
    factor.instantiate_cov_variables()
    factor.instantiate_inv_variables()
    update = factor.make_covariance_update_op(0.9)
    dampings = DAMPING.compute()
    with v1.device(device):
        updates = factor.update_inverses(dampings, device)
    types = [op.type for op in updates]
    assert types == (["StatefulPartitionedCall"] * calls or ["NoOp"])
    changes = factor.updated_inverses(dampings)
    assert [change.variable for change in changes] == list(factor.inv_variables)
    session.run(v1.global_variables_initializer())
    session.run(update)
    expected = session.run([change.value for change in changes])
    session.run(updates)
    for found, value in zip(session.run(factor.inv_variables), expected, strict=True):
        np.testing.assert_array_equal(found, value)


class DoubledFactor(MatrixFactor):
    """A factor of a program's own, whose value is twice the average."""

    dimension = 3

    @property
    def value(self):
        return 2 * super().value

    def trace(self):
        return 2 * super().trace()

    def _tower_moment(self, tensors):
        return Moment(tf.matmul(tensors, tensors, transpose_a=True), 8)


def test_overridden_values_are_used(graph, session, update_factors):
    factor = DoubledFactor(((tf.constant(X),),), ("",), "fc/input")
    factor.register_inverse(DAMPING)
    update_factors(factor)
    assert factor.stored_average is None
    doubled = 2 * X.T @ X / 8
    found, trace = session.run([factor.get_inverse(DAMPING).to_dense(), factor.trace()])
    np.testing.assert_allclose(found, np.linalg.inv(doubled + 0.2 * np.eye(3)), rtol=1e-12)
    np.testing.assert_allclose(trace, np.trace(doubled), rtol=1e-12)
