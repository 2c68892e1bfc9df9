"""Check that a step is finite by its norms."""

import numpy as np
import pytest
import tensorflow as tf

from kfac.linalg.finite_steps import is_finite_step

v1 = tf.compat.v1
SHAPES = ([3], [2, 2], [5])


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
        parts = [np.ones(shape, dtype) for shape in SHAPES]
        parts[index].flat[-1] = bad
        assert is_finite(session, 1.0, parts) == (bad == 1)
        assert is_finite(session, 1.0, [np.ones([2])], parts) == (bad == 1)


@pytest.mark.parametrize("rate", [np.nan, np.inf, 0.0])
def test_rate_is_checked(graph, session, rate):
    assert is_finite(session, rate, [np.ones([2], "float32")]) == (rate == 0)
    assert is_finite(session, rate, [np.zeros([2], "float16")]) == (rate == 0)


def test_multiples_are_checked(graph, session):
    """The rate may make a finite vector overflow."""
    for dtype, large, rate in (("float16", 1e4, 10), ("float32", 1e18, 1e22)):
        part = [np.full([2], large, dtype)]
        assert is_finite(session, 1.0, part)
        assert not is_finite(session, rate, part)
        assert is_finite(session, rate, [np.ones([2], dtype)], part)


def test_squares_overflow(graph, session):
    """A large step of float32 counts as not finite; numbers and 16-bit steps do not."""
    assert not is_finite(session, 1.0, [np.float32([1e20])])
    assert is_finite(session, 1.0, [np.float64([1e20])], [np.float32(1e20)])
    assert is_finite(session, 1.0, [np.full([2], 6e4, "float16")])


def test_parts_are_checked_where_they_are_by_one_operation_each(graph):
    with v1.device("/cpu:1"):
        part = tf.ones([2, 2])
    before = len(graph.get_operations())
    is_finite_step(tf.constant(1.0), [part] * 20, [])
    assert len(graph.get_operations()) - before < 20 + 15
    squares = [op for op in graph.get_operations() if op.type == "L2Loss"]
    assert [op.device for op in squares] == ["/device:CPU:1"] * 20
