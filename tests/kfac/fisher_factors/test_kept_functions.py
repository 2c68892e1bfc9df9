import numpy as np
import pytest
import tensorflow as tf

from kfac.config import CurvatureConfig
from kfac.fisher_factors import Damping, FullyConnectedKroneckerFactor

v1 = tf.compat.v1

X = np.random.RandomState(0).randn(8, 3)
DAMPING = Damping("fc/input", lambda: {"fc/input": tf.constant(0.2, tf.float64)})


def matrix_factor(config=None):
    return FullyConnectedKroneckerFactor(
        ((tf.constant(X),),), False, ("",), name="fc/input", config=config
    )


@pytest.mark.parametrize(("threshold", "eigen"), [(2, 1), (3, 0)])
def test_many_inverses_share_an_eigendecomposition(
    graph, session, threshold, eigen, update_factors
):
    factor = matrix_factor(CurvatureConfig(eigen_threshold=threshold))
    dampings = [
        Damping(str(d), lambda d=d: {str(d): tf.constant(d, tf.float64)}) for d in (0.1, 2.0)
    ]
    for damping in (*dampings, Damping("0.1", lambda: None)):
        factor.register_inverse(damping)
    update_factors(factor)
    assert len(factor.inv_variables) == 4
    found = [op for op in graph.get_operations() if op.type == "SelfAdjointEigV2"]
    assert len(found) == eigen
    for damping, d in zip(dampings, (0.1, 2.0), strict=True):
        expected = np.linalg.inv(X.T @ X / 8 + d * np.eye(3))
        np.testing.assert_allclose(session.run(factor.get_inverse(damping).to_dense()), expected)


def used_types(graph):
    """Types of operations in a graph and in the functions that it calls, but not in theirs."""
    definition = graph.as_graph_def()
    called = {node.attr["f"].func.name for node in definition.node}
    functions = [f for f in definition.library.function if f.signature.name in called]
    nodes = [*definition.node, *(node for f in functions for node in f.node_def)]
    return {node.op for node in nodes}


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
    factor = matrix_factor(CurvatureConfig(inverse_method=method))
    for exponent in powers:
        factor.register_matpower(exponent, DAMPING)
    update_factors(factor)
    used = used_types(graph)
    assert kinds <= used
    assert ("Cholesky" in used) == ("Cholesky" in kinds)
    damped = X.T @ X / 8 + 0.2 * np.eye(3)
    found = session.run(factor.get_inverse(DAMPING).to_dense())
    np.testing.assert_allclose(found, np.linalg.inv(damped), rtol=1e-10)


def test_unregistered_function_is_an_error(graph):
    factor = matrix_factor()
    with pytest.raises(ValueError, match=r"'fc/input' does not keep 'inverse' for damping 'fc/"):
        factor.get_inverse(DAMPING)
