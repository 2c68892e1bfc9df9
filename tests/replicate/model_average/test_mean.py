import numpy as np
import pytest
import tensorflow as tf

from replicate.model_average.mean import WorkerMean

v1 = tf.compat.v1


@pytest.mark.parametrize("dtype", [tf.float16, tf.float32, tf.float64, tf.bfloat16])
def test_late_contributions_are_left_out_of_the_mean(graph, dtype):
    mean = WorkerMean("mean", [2], dtype, "")
    value, round_number = v1.placeholder(dtype, [2]), v1.placeholder(tf.int64, [])
    add, taken = mean.add(value, round_number), mean.take(2, round_number)
    one = mean.take(1, round_number)

    def added(values, number):
        session.run(add, {value: np.array(values, dtype.as_numpy_dtype), round_number: number})

    with v1.Session() as session:
        added([1, 2], 5)
        added([2, 5], 5)
        assert session.run(taken, {round_number: 5}).tolist() == [1.5, 3.5]
        added([100, 100], 5)  # Late: this round has ended.
        added([3, 4], 6)
        assert session.run(one, {round_number: 6}).tolist() == [3, 4]


def test_16_bit_contributions_do_not_overflow(graph):
    mean = WorkerMean("mean", [], tf.float16, "")
    add = mean.add(tf.constant(60000, tf.float16), tf.constant(0, tf.int64))
    taken = mean.take(2, tf.constant(0, tf.int64))
    with v1.Session() as session:
        session.run(add)
        session.run(add)
        assert session.run(taken) == np.float16(60000)


def test_discarded_contributions_are_in_no_mean(graph):
    mean = WorkerMean("mean", [], tf.float32, "")
    round_number = v1.placeholder(tf.int64, [])
    adds = [mean.add(tf.constant(value), round_number) for value in (1.0, 7.0)]
    discard, taken = mean.discard(round_number), mean.take(1, round_number)
    with v1.Session() as session:
        session.run(discard, {round_number: 3})
        session.run(adds[0], {round_number: 4})
        session.run(discard, {round_number: 4})
        session.run(adds[0], {round_number: 4})
        session.run(adds[1], {round_number: 5})
        assert session.run(taken, {round_number: 5}) == 7.0
