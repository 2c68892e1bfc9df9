"""Numbers as arguments of shared functions."""

import tensorflow as tf

from kfac.linalg.shared_numbers import as_argument

v1 = tf.compat.v1


def test_equal_numbers_are_one(graph, session):
    with v1.control_dependencies([tf.constant(0)]), v1.name_scope("some"):
        first = as_argument(0.5, tf.float32, "/cpu:0")
    assert as_argument(0.5, tf.float32, "/cpu:0") is first
    assert first.device == "/device:CPU:0"
    assert first.op.control_inputs == []
    assert not first.name.startswith("some")
    others = [(0.25, tf.float32, "/cpu:0"), (0.5, tf.float64, "/cpu:0"), (0.5, tf.float32, "")]
    assert len({as_argument(*other).name for other in others} - {first.name}) == 3
    assert session.run(first) == 0.5


def test_tensors_stay(graph):
    tensor = tf.constant(1.0)
    assert as_argument(tensor, tf.float64, "") is tensor


def test_graphs_have_their_own(graph):
    as_argument(1.0, tf.float32, "")
    with tf.Graph().as_default() as other:
        assert as_argument(1.0, tf.float32, "").graph is other
