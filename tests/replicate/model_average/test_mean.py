import numpy as np
import pytest
import tensorflow as tf

from replicate.model_average.mean import WorkerMean

v1 = tf.compat.v1


@pytest.mark.parametrize("dtype", [tf.float16, tf.float32, tf.float64, tf.bfloat16])
def test_mean_of_a_round_leaves_out_what_comes_late(graph, dtype):
    mean = WorkerMean("mean", [2], dtype, "")
    value, ticket = v1.placeholder(dtype, [2]), v1.placeholder(tf.int64, [])
    add, taken = mean.add(value, ticket), mean.take(2, ticket)
    one = mean.take(1, ticket)

    def added(values, number):
        session.run(add, {value: np.array(values, dtype.as_numpy_dtype), ticket: number})

    with v1.Session() as session:
        added([1, 2], 5)
        added([2, 5], 5)
        assert session.run(taken, {ticket: 5}).tolist() == [1.5, 3.5]
        added([100, 100], 5)  # Late: this round has ended.
        added([3, 4], 6)
        assert session.run(one, {ticket: 6}).tolist() == [3, 4]


def test_halves_do_not_overflow(graph):
    mean = WorkerMean("mean", [], tf.float16, "")
    add = mean.add(tf.constant(60000, tf.float16), tf.constant(0, tf.int64))
    taken = mean.take(2, tf.constant(0, tf.int64))
    with v1.Session() as session:
        session.run(add)
        session.run(add)
        assert session.run(taken) == np.float16(60000)


def test_discarded_contributions_count_nowhere(graph):
    mean = WorkerMean("mean", [], tf.float32, "")
    ticket = v1.placeholder(tf.int64, [])
    adds = [mean.add(tf.constant(value), ticket) for value in (1.0, 7.0)]
    discard, taken = mean.discard(ticket), mean.take(1, ticket)
    with v1.Session() as session:
        session.run(discard, {ticket: 3})
        session.run(adds[0], {ticket: 4})
        session.run(discard, {ticket: 4})
        session.run(adds[0], {ticket: 4})
        session.run(adds[1], {ticket: 5})
        assert session.run(taken, {ticket: 5}) == 7.0
