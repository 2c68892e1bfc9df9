import numpy as np
import tensorflow as tf

from kfac.fisher_factors import InverseSlot
from kfac.state import assign_all

v1 = tf.compat.v1


def make_slot():
    slot = InverseSlot("fc/w/input", lambda: tf.constant(1.0))
    slot.make_variables(2, tf.float32, "")
    return slot


def test_variables(graph):
    slot = InverseSlot("fc/w/input", lambda: tf.constant(1.0))
    assert slot.variables == ()
    slot.make_variables(2, tf.float32, "")
    slot.make_variables(2, tf.float32, "")
    leaves = ("inverse", "inverse_rare_paths")
    assert [v.op.name for v in slot.variables] == [f"kfac/fc/w/input/{leaf}" for leaf in leaves]
    assert v1.global_variables() == list(slot.variables)


def test_starts_at_zero(graph, session):
    slot = make_slot()
    session.run(v1.global_variables_initializer())
    np.testing.assert_array_equal(session.run(slot.read()), np.zeros([2, 2]))


def test_update_and_counters(graph, session):
    slot = make_slot()
    matrix = v1.placeholder(tf.float32, [2, 2])
    update = assign_all(slot.updated(matrix))
    session.run(v1.global_variables_initializer())
    session.run(update, {matrix: np.eye(2)})
    for bad in (np.full([2, 2], np.nan), np.full([2, 2], np.inf)):
        session.run(update, {matrix: bad})
    np.testing.assert_allclose(session.run(slot.read()), np.eye(2) / 2)
    assert tuple(session.run(slot.read_rare_paths())) == (0, 0, 2)
    session.run(update, {matrix: np.diag([1.0, -2e4])})
    assert tuple(session.run(slot.read_rare_paths())) == (1, 1, 2)
