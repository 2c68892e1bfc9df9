import numpy as np
import pytest
import tensorflow as tf

from kfac.fisher_factors import Damping, FullyConnectedMultiKF
from kfac.linalg.chain import Chain

X = np.random.RandomState(0).randn(3, 5, 2)


@pytest.mark.parametrize("has_bias", [False, True])
@pytest.mark.parametrize("how", ["uses", "stacked", "folded"])
def test_moments(graph, session, how, has_bias):
    cuts = [1, 3]
    towers = []
    for part in np.split(X, cuts, axis=1):
        if how == "uses":
            towers.append(tuple(map(tf.constant, part)))
        else:
            towers.append(
                (tf.constant(part),) if how == "stacked" else tf.constant(part.reshape(-1, 2))
            )
    factor = FullyConnectedMultiKF((tuple(towers),), 3, has_bias, ("",) * 3, name="rnn/input")
    rows = np.concatenate([X, np.ones([3, 5, 1])], axis=2) if has_bias else X
    flat = rows.reshape(15, -1)
    first, cross = session.run(factor.batch_statistic())
    np.testing.assert_allclose(first, flat.T @ flat / 15, rtol=1e-12)
    np.testing.assert_allclose(cross, flat[5:].T @ flat[:-5] / 15, rtol=1e-12)
    assert factor.cov_shape == (2, flat.shape[1], flat.shape[1])


def test_variables(graph):
    factor = FullyConnectedMultiKF(((tf.constant(X[0]),),), 1, False, ("",), name="rnn/input")
    damping = Damping("rnn/input", lambda: {"rnn/input": tf.constant(0.1, tf.float64)})
    factor.register(Chain(1), damping)
    factor.register(Chain(2), damping)
    factor.instantiate_inv_variables()
    first, _, second, _ = factor.inv_variables
    assert (first.op.name, second.op.name) == ("kfac/rnn/input/chain_1", "kfac/rnn/input/chain_2")
    assert (first.shape, second.shape) == ([3, 2], [5, 2])
    assert factor.get_inv_vars() == [first, second]
    factor.instantiate_cov_variables()
    assert [average.shape for average in factor.get_cov_vars()] == [[2, 2], [2, 2]]
    size = factor.dtype.size
    assert (factor.cov_bytes, factor.inverse_bytes) == (size * 2 * 2 * 2, size * (3 * 2 + 5 * 2))


def test_powers_are_refused(graph):
    factor = FullyConnectedMultiKF(((tf.constant(X[0]),),), 1, False, ("",), name="rnn/input")
    damping = Damping("rnn/input", lambda: {"rnn/input": tf.constant(0.1, tf.float64)})
    for ask in (factor.register_matpower, factor.get_matpower):
        with pytest.raises(ValueError, match=r"power -1 of factor 'rnn/input'.*'kron_indep'"):
            ask(-1, damping)
