"""Shared constants and numbers: one for each value, shape, dtype and device of a graph."""

import numpy as np
import tensorflow as tf

from kfac.linalg.shared_constants import shared_constant
from kfac.linalg.shared_numbers import as_argument

v1 = tf.compat.v1


def test_equal_constants_are_one(graph, session):
    with v1.control_dependencies([tf.constant(0)]), v1.name_scope("some"):
        first = shared_constant(1, [2], tf.float32)
    assert shared_constant(1, (2,), tf.float32) is first
    assert first.op.control_inputs == []
    assert not first.name.startswith("some")
    np.testing.assert_array_equal(session.run(first), [1, 1])
    with tf.Graph().as_default() as other:
        assert shared_constant(1, [2], tf.float32).graph is other


def test_others_are_not(graph):
    found = [
        shared_constant(0, [2], tf.float32),
        shared_constant(0, [3], tf.float32),
        shared_constant(0, [2], tf.float64),
        shared_constant(1, [2], tf.float32),
        shared_constant(0, [2], tf.float32, "/cpu:1"),
    ]
    assert len({tensor.name for tensor in found}) == len(found)
    assert "CPU:1" in found[-1].device


def test_functional_branches_have_their_own(graph):
    shared_constant(0, [], tf.float32)
    wanted = v1.placeholder(tf.bool, [])
    inside = []

    def branch():
        inside.append(shared_constant(1, [], tf.float32))
        return inside[0]

    tf.cond(wanted, branch, lambda: tf.constant(2.0))
    assert inside[0].graph is not graph
    assert shared_constant(1, [], tf.float32).graph is graph


def test_equal_numbers_are_one(graph, session):
    with v1.control_dependencies([tf.constant(0)]), v1.name_scope("some"):
        first = as_argument(0.5, tf.float32, "/cpu:0")
    assert as_argument(0.5, tf.float32, "/cpu:0") is first
    assert as_argument(first, tf.float64, "") is first
    assert first.device == "/device:CPU:0"
    assert first.op.control_inputs == []
    assert not first.name.startswith("some")
    others = [(0.25, tf.float32, "/cpu:0"), (0.5, tf.float64, "/cpu:0"), (0.5, tf.float32, "")]
    assert len({as_argument(*other).name for other in others} - {first.name}) == 3
    assert session.run(first) == 0.5
    with tf.Graph().as_default() as other:
        assert as_argument(0.5, tf.float32, "/cpu:0").graph is other
