"""Vectors that share their operations, checks that steps are finite, and powers of a diagonal."""

import numpy as np
import pytest
import tensorflow as tf

from kfac.linalg.linear_operator import damped_diagonal_power
from kfac.linalg.vectors import make_packing
from kfac.update.apply import is_finite_step

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


def is_finite(session, rate, raw, others=()):
    raw, others = ([tf.constant(x) for x in parts] for parts in (raw, others))
    return session.run(is_finite_step(tf.constant(rate, tf.float32), raw, others))


@pytest.mark.parametrize(
    ("dtype", "bad"),
    [("float16", np.nan), ("bfloat16", np.inf), ("float32", -np.inf), ("float64", 1)],
)
def test_each_part_is_checked(graph, session, dtype, bad):
    dtype = tf.as_dtype(dtype).as_numpy_dtype
    for index in range(3):
        parts = [np.ones(shape, dtype) for shape in ([3], [2, 2], [5])]
        parts[index].flat[-1] = bad
        assert is_finite(session, 1.0, parts) == (bad == 1)
        assert is_finite(session, 1.0, [np.ones([2])], parts) == (bad == 1)


LARGE = {"float16": np.full([2], 1e4, "f2"), "float32": np.full([2], 1e18, "f4")}


@pytest.mark.parametrize(
    ("rate", "raw", "others", "expected"),
    [
        (np.nan, [np.float32([1])], [], False),
        (np.inf, [np.zeros([2], "float16")], [], False),
        (0.0, [np.float32([1])], [], True),
        # The rate may make a finite vector overflow.
        (10, [LARGE["float16"]], [], False),
        (10, [np.float16([1])], [LARGE["float16"]], True),
        (1e22, [LARGE["float32"]], [], False),
        (1e22, [np.float32([1])], [LARGE["float32"]], True),
        (1.0, [*LARGE.values(), np.full([2], 6e4, "f2")], [], True),
        # A large step of float32 counts as not finite; its squares overflow.
        (1.0, [np.float32([1e20])], [], False),
        (1.0, [np.float64([1e20])], [np.float32(1e20)], True),
    ],
)
def test_rates_and_multiples_are_checked(graph, session, rate, raw, others, expected):
    assert is_finite(session, rate, raw, others) == expected


def test_parts_are_checked_where_they_are_by_one_operation_each(graph):
    with v1.device("/cpu:1"):
        part = tf.ones([2, 2])
    before = len(graph.get_operations())
    is_finite_step(tf.constant(1.0), [part] * 20, [])
    assert len(graph.get_operations()) - before < 20 + 15
    squares = [op for op in graph.get_operations() if op.type == "L2Loss"]
    assert [op.device for op in squares] == ["/device:CPU:1"] * 20


def test_powers(graph, session):
    """They are zero where they are not finite."""
    value, damping = np.array([0.5, 2.0]), tf.constant(0.1, tf.float64)
    for exponent in (-1, -0.5, 2):
        found = damped_diagonal_power(tf.constant(value), damping, exponent, tf.float32)
        assert found.dtype == tf.float32
        np.testing.assert_allclose(session.run(found), (value + 0.1) ** exponent, rtol=1e-6)
    for bad, damping in ((np.nan, 1.0), (np.inf, 1.0), (0.0, 0.0)):
        found = damped_diagonal_power(tf.constant([1.0, bad]), tf.constant(damping), -1, tf.float32)
        np.testing.assert_array_equal(session.run(found), [0, 0])
