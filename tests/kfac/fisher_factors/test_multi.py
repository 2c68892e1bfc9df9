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


def test_all_formats_fold_to_the_same(graph, session):
    formats = [
        list(map(tf.constant, VALUES)),
        tf.constant(VALUES),
        tf.constant(VALUES.reshape(3, 2, 2, 2)),
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


def test_count(graph):
    rows = tf.ones
    ids = [tf.zeros([4], tf.int32), tf.zeros([8], tf.int32)]
    for tensors, num_uses, expected in (
        ([rows([4, 2])] * 3, None, 3),
        (rows([3, 4, 2]), None, 3),
        (rows([12, 2]), 3, 3),
        ([rows([4, 2]), rows([8, 2])], 3, 3),
        ([rows([2, 4, 2]), rows([8, 2])], 4, 4),
        (ids, 3, 3),
    ):
        assert count_uses(tensors, num_uses, 1, "rnn/w") == expected


@pytest.mark.parametrize(
    ("shapes", "num_uses", "message"),
    [
        ([None], 3, r"its tensors tell 1"),
        ([(4, 2), (8, 2)], 1, r"its tensors tell 2.*or lists of such tensors of static"),
        ([(4, 2), (8, 2)], 4, r"its tensors tell 2"),
        ([(4, 2), (8, 2)], 5, r"its tensors tell 2"),
        ([(None, 2), (None, 2)], 4, r"its tensors tell 2"),
        ((12, 2), None, r"layer 'rnn/w': num_uses=.*Give lists with one tensor"),
        ((3, 4, 2), 4, r"layer 'rnn/w': num_uses="),
        ((None, 4, 2), None, r"layer 'rnn/w': num_uses="),
    ],
)
def test_unknown_or_other_number_of_uses(graph, shapes, num_uses, message):
    is_list = isinstance(shapes, list)
    tensors = [v1.placeholder(tf.float32, shape) for shape in (shapes if is_list else [shapes])]
    with pytest.raises(ValueError, match=message):
        count_uses(tensors if is_list else tensors[0], num_uses, 1, "rnn/w")


def test_sampled_rows_are_different_rows(graph, session):
    found, *every = session.run([sample_rows(tf.constant(ROWS), n, "conv") for n in (7, 20, 100)])
    assert found.shape == (7, 2)
    assert len(np.unique(found[:, 0])) == 7
    assert np.isin(found[:, 0], ROWS[:, 0]).all()
    for rows in every:
        np.testing.assert_array_equal(np.sort(rows, axis=0), ROWS)


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
