"""Sums of gradients over copies of a model, alone and in packs."""

import numpy as np
import pytest
import tensorflow as tf

from model_deploy.gradients import sum_gradients, sum_over_copies
from model_deploy.packing import cross_in_packs

v1 = tf.compat.v1


def slices(values, indices, rows=4):
    values = tf.constant(values, tf.float32)
    return tf.IndexedSlices(values, tf.constant(indices), tf.constant([rows, values.shape[1]]))


def dense(gradient):
    with v1.Session() as session:
        return session.run(v1.convert_to_tensor(gradient))


def test_one_gradient_or_none_is_the_sum(graph):
    gradient = tf.constant([1.0])
    assert sum_gradients([None, gradient]) is gradient
    assert sum_gradients([None, None]) is None


def test_sparse_gradients_stay_sparse_and_repeated_rows_add_up(graph):
    total = sum_gradients([slices([[1.0, 2.0]], [3]), slices([[4.0, 5.0], [6.0, 7.0]], [3, 0])])
    assert isinstance(total, tf.IndexedSlices)
    np.testing.assert_array_equal(dense(total), [[6, 7], [0, 0], [0, 0], [5, 7]])


def test_sum_of_dense_and_sparse_gradients_is_dense(graph):
    total = sum_gradients([tf.ones([4, 2]), slices([[1.0, 2.0]], [1])])
    assert isinstance(total, tf.Tensor)
    np.testing.assert_array_equal(dense(total), [[1, 1], [2, 3], [1, 1], [1, 1]])


@pytest.fixture
def pair(graph):
    with v1.device("/device:CPU:1"):
        first = v1.get_variable("first", shape=[])
    with v1.device("/device:CPU:2"):
        second = v1.get_variable("second", shape=[])
    return first, second


def test_sums_over_copies_are_on_the_devices_of_the_variables(pair):
    first, second = pair
    third = v1.get_variable("without_gradient", shape=[])
    copies = [
        [(None, third), (tf.constant(1.0), first), (tf.constant(10.0), second)],
        [(tf.constant(20.0), second), (tf.constant(2.0), first), (None, third)],
    ]
    (total, variable), (other_total, other) = sum_over_copies(copies)
    assert (variable, other) == (first, second)
    assert (total.device, other_total.device) == ("/device:CPU:1", "/device:CPU:2")
    assert total.op.name == "first/sum_grads"
    assert dense(total) == 3.0
    assert dense(other_total) == 30.0


def test_dense_gradients_add_up_in_order_with_other_readers(graph):
    # 1 is lost if it is added to the one before it: (1e8 - 1e8) + 1, but (1 - 1e8) + 1e8 = 0.
    parts = [tf.floor(tf.random.uniform([8])) + value for value in (1e8, -1e8, 1.0)]
    total = sum_gradients(parts)
    with v1.Session() as session:
        # What is fetched is kept, so its memory can't be taken for the sum.
        for others in ([], parts[:1], parts[:2], parts[1:]):
            np.testing.assert_array_equal(session.run([total, *others])[0], np.ones(8))


def test_sums_have_gradients(graph):
    x = tf.constant([2.0, 3.0])
    (slope,) = tf.gradients(sum_gradients([x**2, x, x]), x)
    np.testing.assert_array_equal(dense(slope), [6.0, 8.0])


def build(shapes, source="/device:CPU:1", destinations="2"):
    """(gradient, variable) pairs with gradients 0, 1, 2, … on `source`."""
    pairs, start = [], 0
    for index, shape in enumerate(shapes):
        with v1.device(f"/device:CPU:{destinations[index % len(destinations)]}"):
            variable = v1.get_variable(f"v{index}", shape=shape)
        size = int(np.prod(shape))
        with v1.device(source):
            gradient = tf.reshape(tf.range(start, start + size, dtype=tf.float32), shape)
        pairs.append((gradient, variable))
        start += size
    return pairs


def packs(graph):
    return [op for op in graph.get_operations() if op.type == "ConcatV2"]


@pytest.mark.parametrize(("max_bytes", "count"), [(4, 0), (24, 2), (40, 1)])
def test_packing_keeps_values_and_order(graph, max_bytes, count, evaluate):
    pairs = build([[2, 2], [2], [3], [1]])
    crossed = cross_in_packs(pairs, max_bytes)
    assert [variable for _, variable in crossed] == [variable for _, variable in pairs]
    before, after = evaluate([[g for g, _ in pairs], [g for g, _ in crossed]])
    for expected, got in zip(before, after, strict=True):
        np.testing.assert_array_equal(got, expected)
    assert len(packs(graph)) == count


def test_each_route_has_separate_packs_on_the_right_devices(graph):
    crossed = cross_in_packs(build([[2]] * 4, destinations="23"), 10**6)
    assert [op.device for op in packs(graph)] == ["/device:CPU:1"] * 2
    assert [gradient.device[-1] for gradient, _ in crossed] == list("2323")


def test_gradients_that_cannot_be_packed_are_unchanged(graph):
    pairs = build([[2], [2]], destinations="1")
    with v1.device("/device:CPU:2"):
        far = v1.get_variable("far", shape=[2])
    sparse = tf.IndexedSlices(tf.ones([1]), tf.constant([0]), tf.constant([2]))
    pairs += [(None, far), (sparse, far), (v1.placeholder(tf.float32, [None]), far)]
    assert cross_in_packs(pairs, 10**6) == pairs
