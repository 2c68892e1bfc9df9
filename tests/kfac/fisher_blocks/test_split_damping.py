import numpy as np
import pytest
import tensorflow as tf

import kfac
from kfac.fisher_blocks.split_damping import SplitDamping
from kfac.fisher_factors import FullyConnectedKroneckerFactor

v1 = tf.compat.v1


def moment(rows):
    return rows.T @ rows / len(rows)


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
