"""Parts of a vector that share their operations come back in order, and only equal kinds do."""

import numpy as np
import pytest
import tensorflow as tf

from kfac.linalg.packing import make_packing

v1 = tf.compat.v1

SHAPES = {"w": [2, 3], "b": [3], "table": [4, 2], "gamma": [2], "beta": [2], "far": [5]}


@pytest.fixture
def parts(graph):
    """Variables by name, and gradients of them: a sparse one, one of a second device, floats."""
    gradients, variables = [], []
    for index, (name, shape) in enumerate(SHAPES.items()):
        with v1.device("/cpu:1" if name == "far" else "/cpu:0"):
            variables.append(v1.get_variable(name, shape))
            gradients.append(tf.constant(np.full(shape, index, np.float32)))
    rows = tf.IndexedSlices(tf.ones([1, 2]), tf.constant([3]), tf.constant([4, 2]))
    gradients[list(SHAPES).index("table")] = rows
    return gradients, variables


def test_vectors_of_a_device_are_joined_and_come_back(parts, session):
    gradients, variables = parts
    packing = make_packing(gradients, variables)
    assert packing.groups == ((0,), (1, 3, 4), (2,), (5,))
    packed = packing.pack(gradients)
    np.testing.assert_array_equal(session.run(packed[1]), [1, 1, 1, 3, 3, 4, 4])
    assert packed[0] is gradients[0]
    assert packed[2] is gradients[2]
    back = packing.unpack(packed)
    assert back[2] is gradients[2]
    for index, name in enumerate(SHAPES):
        if name != "table":
            expected = np.full(SHAPES[name], index)
            np.testing.assert_array_equal(session.run(back[index]), expected)


def test_vectors_of_different_dtypes_stay_apart(graph):
    variables = [v1.get_variable(d.name, [2], d) for d in (tf.float32, tf.float64)]
    assert make_packing([v.read_value() for v in variables], variables).groups == ((0,), (1,))
