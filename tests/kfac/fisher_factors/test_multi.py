"""Factors of layers that are used several times, and of a part of the data."""

import numpy as np
import pytest
import tensorflow as tf

from kfac.fisher_factors import Damping, FullyConnectedMultiKF
from kfac.fisher_factors.conv import sample_rows
from kfac.fisher_factors.uses import as_uses, count_uses, fold_uses
from kfac.linalg.chain import Chain

v1 = tf.compat.v1
X = np.random.RandomState(0).randn(3, 5, 2)
VALUES = np.arange(24.0).reshape(3, 4, 2)
ROWS = np.arange(40.0).reshape(20, 2)


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


def test_all_formats_fold_to_the_same(graph, session):
    formats = [
        list(map(tf.constant, VALUES)),
        tf.constant(VALUES),
        tf.constant(VALUES.reshape(12, 2)),
    ]
    for tensors in formats:
        found = session.run(fold_uses(as_uses(tensors, 1), 1))
        np.testing.assert_array_equal(found, VALUES.reshape(12, 2))


def test_images_of_unknown_size(graph, session):
    images = np.arange(48.0).reshape(2, 3, 2, 2, 2)
    x = v1.placeholder(tf.float64, [None, None, None, None, 2])
    found = session.run(fold_uses(as_uses(x, 3), 3), {x: images})
    np.testing.assert_array_equal(found, images.reshape(6, 2, 2, 2))


def test_more_axes_of_uses(graph, session):
    values = tf.constant(VALUES.reshape(3, 2, 2, 2))
    found = session.run(fold_uses(as_uses(values, 1), 1))
    np.testing.assert_array_equal(found, VALUES.reshape(12, 2))


def test_count(graph):
    assert count_uses([tf.ones([4, 2])] * 3, None, 1, "rnn/w") == 3
    assert count_uses(tf.ones([3, 4, 2]), None, 1, "rnn/w") == 3
    assert count_uses(tf.ones([12, 2]), 3, 1, "rnn/w") == 3


def test_count_in_lists_of_several_uses_each(graph):
    assert count_uses([tf.ones([4, 2]), tf.ones([8, 2])], 3, 1, "rnn/w") == 3
    assert count_uses([tf.ones([2, 4, 2]), tf.ones([8, 2])], 4, 1, "rnn/w") == 4
    ids = [tf.zeros([4], tf.int32), tf.zeros([8], tf.int32)]
    assert count_uses(ids, 3, 1, "embedding") == 3


def test_lists_of_unknown_rank(graph):
    with pytest.raises(ValueError, match=r"its tensors tell 1"):
        count_uses([v1.placeholder(tf.float32, None)], 3, 1, "rnn/w")


@pytest.mark.parametrize(
    ("rows", "num_uses"), [((4, 8), 1), ((4, 8), 4), ((4, 8), 5), ((None, None), 4)]
)
def test_lists_with_another_number_of_uses(graph, rows, num_uses):
    tensors = [v1.placeholder(tf.float32, [n, 2]) for n in rows]
    with pytest.raises(ValueError, match=r"its tensors tell 2.*or lists of such tensors of static"):
        count_uses(tensors, num_uses, 1, "rnn/w")


@pytest.mark.parametrize(
    ("shape", "num_uses"), [([12, 2], None), ([3, 4, 2], 4), ([None, 4, 2], None)]
)
def test_unknown_or_other_number_of_uses(graph, shape, num_uses):
    x = v1.placeholder(tf.float32, shape)
    with pytest.raises(ValueError, match=r"layer 'rnn/w': num_uses=.*Give lists with one tensor"):
        count_uses(x, num_uses, 1, "rnn/w")


def test_rows_are_different_rows(graph, session):
    found = session.run(sample_rows(tf.constant(ROWS), 7, "conv"))
    assert found.shape == (7, 2)
    assert len(np.unique(found[:, 0])) == 7
    assert np.isin(found[:, 0], ROWS[:, 0]).all()


@pytest.mark.parametrize("count", [20, 100])
def test_all_rows_if_there_are_fewer(graph, session, count):
    found = session.run(sample_rows(tf.constant(ROWS), count, "conv"))
    np.testing.assert_array_equal(np.sort(found, axis=0), ROWS)


def test_draws_depend_on_data_and_name_only(graph, session):
    first, again, named, other = session.run(
        [
            sample_rows(tf.constant(ROWS), 10, "a"),
            sample_rows(tf.constant(ROWS), 10, "a"),
            sample_rows(tf.constant(ROWS), 10, "b"),
            sample_rows(tf.constant(ROWS + 0.5), 10, "a"),
        ]
    )
    np.testing.assert_array_equal(first, again)
    assert (first != named).any()
    assert (first != other - 0.5).any()
