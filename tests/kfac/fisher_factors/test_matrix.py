"""Factors that are matrices, whole, diagonal or structured, and functions of them."""

import numpy as np
import pytest
import tensorflow as tf

from kfac.config import CurvatureConfig
from kfac.fisher_factors import (
    ConvInputSUAKroneckerFactor,
    Damping,
    FullyConnectedDiagonalFactor,
    FullyConnectedKroneckerFactor,
    FullyConnectedMultiKF,
    MatrixFactor,
)
from kfac.fisher_factors.base import NOTHING_KNOWN, Moment
from kfac.linalg.damped_functions import Cholesky, Power
from kfac.patches.extraction import ConvGeometry

v1 = tf.compat.v1
X = np.random.RandomState(0).randn(8, 3)
DAMPING = Damping("fc/input", lambda: {"fc/input": tf.constant(0.2, tf.float64)})


def matrix_factor(towers=(X,), devices=("",), config=None):
    tensors = (tuple(map(tf.constant, towers)),)
    return FullyConnectedKroneckerFactor(tensors, False, devices, "fc/input", config)


def diagonal_factor():
    g = np.random.RandomState(1).randn(8, 2)
    tensors = (((tf.constant(X), tf.constant(g)),),)
    factor = FullyConnectedDiagonalFactor(tensors, False, ("",), name="fc/input")
    return factor, np.diag(((X**2).T @ g**2 / 8).ravel())


@pytest.mark.parametrize("is_diagonal", [False, True])
def test_functions(graph, session, update_factors, is_diagonal):
    factor, moment = diagonal_factor() if is_diagonal else (matrix_factor(), X.T @ X / 8)
    for exponent in (-1, -0.5, 1):
        factor.register_matpower(exponent, DAMPING)
    factor.register_cholesky(DAMPING)
    factor.register_cholesky_inverse(DAMPING)
    update_factors(factor)
    damped = moment + 0.2 * np.eye(len(moment))
    values, vectors = np.linalg.eigh(damped)
    root = np.linalg.cholesky(damped)
    operators = {
        "inverse": (factor.get_inverse(DAMPING), np.linalg.inv(damped)),
        "root": (factor.get_matpower(-0.5, DAMPING), (vectors * values**-0.5) @ vectors.T),
        "itself": (factor.get_matpower(1, DAMPING), damped),
        "cholesky": (factor.get_cholesky(DAMPING), root),
        "cholesky_inverse": (factor.get_cholesky_inverse(DAMPING), np.linalg.inv(root)),
        "undamped": (factor.get_cov_as_linear_operator(), moment),
    }
    found = session.run({name: operator.to_dense() for name, (operator, _) in operators.items()})
    for name, (_, expected) in operators.items():
        np.testing.assert_allclose(found[name], expected, rtol=1e-10, atol=1e-12, err_msg=name)
    np.testing.assert_allclose(session.run(factor.trace()), np.trace(moment))
    if is_diagonal:
        assert (factor.inverses, factor.inv_variables, factor.updated_inverses({})) == ((), (), [])
        assert (factor.inverse_cost, factor.cov_shape) == (6, (6,))
        assert (factor.cov_bytes, factor.inverse_bytes) == (8 * 6, 0)
        return
    leaves = ("inverse", "power_-0.5", "cholesky", "cholesky_inverse")
    assert [slot.name for slot in factor.inverses] == [f"fc/input/{leaf}" for leaf in leaves]
    assert factor.inverse_cost == 4 * 27
    assert (factor.cov_bytes, factor.inverse_bytes) == (8 * 9, 4 * 8 * 9)


@pytest.mark.parametrize(("size", "dtype"), [(3, "float64"), (4, "bfloat16")])
def test_half_the_memory(session, update_factors, size, dtype):
    x = np.random.RandomState(0).randn(8, size)
    config = CurvatureConfig(factor_storage="packed", factor_dtype=dtype, inverse_dtype=dtype)
    factor = matrix_factor((x,), config=config)
    factor.register_matpower(-1, DAMPING)
    update_factors(factor)
    kept = [factor.cov_variables[0], factor.inverses[0].matrix]
    assert [variable.shape for variable in kept] == [(2, 5), (size, size)]
    assert {variable.dtype.base_dtype for variable in kept} == {tf.as_dtype(dtype)}
    assert factor.cov_bytes == 10 * tf.as_dtype(dtype).size
    moment = x.T @ x / 8
    expected = [moment, np.trace(moment), np.trace(moment) / size]
    expected.append(np.linalg.inv(moment + 0.2 * np.eye(size)))
    inverse = factor.get_inverse(DAMPING).to_dense()
    found = session.run([factor.value, factor.trace(), factor.mean_eigenvalue(), inverse])
    assert {array.dtype for array in found} == {np.dtype(factor.dtype.as_numpy_dtype)}
    tolerance = 0.03 if dtype == "bfloat16" else 1e-12
    for array, right in zip(found, expected, strict=True):
        np.testing.assert_allclose(array, right, tolerance, tolerance)


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


def test_diagonal_before_any_statistic_gives_zero(graph, session):
    factor, _ = diagonal_factor()
    factor.instantiate_cov_variables()
    session.run(v1.global_variables_initializer())
    assert not session.run(factor.get_inverse(DAMPING).to_dense()).any()


def test_functions_that_a_structure_does_not_allow(graph):
    images, rows = tf.ones([2, 4, 4, 3], tf.float64), tf.ones([5, 2])
    geometry = ConvGeometry((2, 2), (1, 1), "SAME")
    sua = ConvInputSUAKroneckerFactor(((images,),), geometry, True, ("",), name="conv/input")
    chain = FullyConnectedMultiKF(((rows,),), 1, False, ("",), name="rnn/input")
    of_sua = r"factor 'conv/input': with approx='kron_sua' only"
    of_chain = r"power -1 of factor 'rnn/input'.*'kron_indep'"
    for ask, message in (
        (sua.register_cholesky, of_sua),
        (sua.register_cholesky_inverse, of_sua),
        (sua.get_cholesky, of_sua),
        (sua.get_cholesky_inverse, of_sua),
        (lambda damping: sua.get_matpower(-0.5, damping), of_sua),
        (chain.register_cholesky, "Cholesky factor of factor 'rnn/input'.*'kron_indep'"),
        (lambda damping: chain.register_matpower(-1, damping), of_chain),
        (lambda damping: chain.get_matpower(-1, damping), of_chain),
    ):
        with pytest.raises(ValueError, match=message):
            ask(DAMPING)


@pytest.mark.parametrize(
    ("device", "functions", "kind"),
    [
        ("", [Power(-1), Cholesky()], "StatefulPartitionedCall"),
        ("/device:CPU:1", [Power(-1), Cholesky()], "NoOp"),
        ("", [Power(-1), Power(-0.5)], "StatefulPartitionedCall"),
    ],
)
def test_inverses_are_refreshed_where_the_variables_are(graph, session, device, functions, kind):
    """Elsewhere, the variables are read beforehand."""
    factor = matrix_factor()
    for function in functions:
        factor.register(function, DAMPING)
    factor.instantiate_cov_variables()
    factor.instantiate_inv_variables()
    update = factor.make_covariance_update_op(0.9)
    dampings = DAMPING.compute()
    with v1.device(device):
        updates = factor.refresh(dampings, device)
    assert [op.type for op in updates] == [kind]
    changes = factor.updated_inverses(dampings)
    assert [change.variable for change in changes] == list(factor.inv_variables)
    session.run(v1.global_variables_initializer())
    session.run(update)
    expected = session.run([change.value for change in changes])
    session.run(updates)
    for found, value in zip(session.run(factor.inv_variables), expected, strict=True):
        np.testing.assert_allclose(found, value, rtol=1e-12)


class OwnFactor(MatrixFactor):
    """A factor of a program's own."""

    dimension = 3

    def _tower_moment(self, tensors):
        return Moment(tf.matmul(tensors, tensors, transpose_a=True), 8)


class DoubledFactor(OwnFactor):
    """Its value is twice the average."""

    @property
    def value(self):
        return 2 * super().value

    def trace(self):
        return 2 * super().trace()


class DoubledForInverses(OwnFactor):
    def value_of(self, averages):
        return 2 * super().value_of(averages)

    def trace(self):
        return 2 * MatrixFactor.trace(self)


class ComputesDoubled:
    """Computes inverses of twice the value, for any factor."""

    def updated_inverses(self, dampings, averages=NOTHING_KNOWN):
        averages = {self.name: 2 * self.value_of(averages)}
        return super().updated_inverses(dampings, averages)

    def trace(self):
        return 2 * super().trace()


class MixedFactor(ComputesDoubled, OwnFactor):
    """Has the method of another class."""


class MovedFactor(DoubledFactor):
    """Notes that its inverses were given to `move_average`."""

    moved = 0

    def move_average(self, changes):
        self.moved += len(changes)
        return super().move_average(changes)


@pytest.mark.parametrize("cls", [DoubledFactor, DoubledForInverses, MixedFactor, MovedFactor])
def test_overridden_methods_are_used(graph, session, update_factors, cls):
    factor = cls(((tf.constant(X),),), ("",), "fc/input")
    factor.register_inverse(DAMPING)
    update_factors(factor)
    doubled = 2 * X.T @ X / 8
    found, trace = session.run([factor.get_inverse(DAMPING).to_dense(), factor.trace()])
    np.testing.assert_allclose(found, np.linalg.inv(doubled + 0.2 * np.eye(3)), rtol=1e-12)
    np.testing.assert_allclose(trace, np.trace(doubled), rtol=1e-12)
    if cls is MovedFactor:
        assert factor.moved == 2


def used_types(graph):
    """Returns the types of operations that compute functions at the first attempt."""
    first = ("_refresh", "_damped_function")
    library = graph.as_graph_def().library.function
    functions = [f for f in library if any(name in f.signature.name for name in first)]
    return [node.op for each in functions for node in each.node_def]


@pytest.mark.parametrize(("threshold", "eigen"), [(2, 1), (3, 0)])
def test_many_inverses_share_an_eigendecomposition(
    graph, session, threshold, eigen, update_factors
):
    factor = matrix_factor(config=CurvatureConfig(eigen_threshold=threshold))
    dampings = [
        Damping(str(d), lambda d=d: {str(d): tf.constant(d, tf.float64)}) for d in (0.1, 2.0)
    ]
    for damping in (*dampings, Damping("0.1", lambda: None)):
        factor.register_inverse(damping)
    update_factors(factor)
    assert len(factor.inv_variables) == 4
    assert used_types(graph).count("SelfAdjointEigV2") == eigen
    for damping, d in zip(dampings, (0.1, 2.0), strict=True):
        expected = np.linalg.inv(X.T @ X / 8 + d * np.eye(3))
        np.testing.assert_allclose(session.run(factor.get_inverse(damping).to_dense()), expected)


@pytest.mark.parametrize(
    ("method", "powers", "kinds"),
    [
        ("auto", (-1,), {"Cholesky"}),
        ("auto", (-1, 0.5), {"SelfAdjointEigV2"}),
        ("cholesky", (-1, 0.5), {"Cholesky", "SelfAdjointEigV2"}),
        ("eigh", (-1,), {"SelfAdjointEigV2"}),
        ("lu", (-1,), {"MatrixInverse", "Cholesky"}),
        ("newton_schulz", (-1,), {"StatelessWhile"}),
    ],
)
def test_inverse_methods(graph, session, method, powers, kinds, update_factors):
    factor = matrix_factor(config=CurvatureConfig(inverse_method=method))
    for exponent in powers:
        factor.register_matpower(exponent, DAMPING)
    update_factors(factor)
    used = set(used_types(graph))
    assert kinds <= used
    assert ("Cholesky" in used) == ("Cholesky" in kinds)
    damped = X.T @ X / 8 + 0.2 * np.eye(3)
    found = session.run(factor.get_inverse(DAMPING).to_dense())
    np.testing.assert_allclose(found, np.linalg.inv(damped), rtol=1e-10)


def test_unregistered_function_is_an_error(graph):
    factor = matrix_factor()
    with pytest.raises(ValueError, match=r"'fc/input' does not keep 'inverse' for damping 'fc/"):
        factor.get_inverse(DAMPING)
