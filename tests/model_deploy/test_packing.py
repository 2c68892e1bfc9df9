"""Gradients that cross between devices in packs."""

import numpy as np
import pytest
import tensorflow as tf

from model_deploy.packing import cross_in_packs

v1 = tf.compat.v1


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


@pytest.mark.parametrize(("max_bytes", "count"), [(4, 0), (40, 1), (24, 2), (10**6, 1)])
def test_packing_keeps_values_and_order(graph, max_bytes, count):
    pairs = build([[2, 2], [2], [3], [1]])
    crossed = cross_in_packs(pairs, max_bytes)
    assert [variable for _, variable in crossed] == [variable for _, variable in pairs]
    with v1.Session() as session:
        before, after = session.run([[g for g, _ in pairs], [g for g, _ in crossed]])
    for expected, got in zip(before, after, strict=True):
        np.testing.assert_array_equal(got, expected)
    assert len(packs(graph)) == count


def test_packs_hold_at_most_the_given_bytes(graph):
    cross_in_packs(build([[4]] * 7), max_bytes=50)
    sizes = [op.outputs[0].shape.num_elements() * 4 for op in packs(graph)]
    assert sizes == [48, 48]


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
