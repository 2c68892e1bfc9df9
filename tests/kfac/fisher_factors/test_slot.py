import numpy as np
import pytest
import tensorflow as tf

from kfac.fisher_factors.slot import Damping, MatrixSlot, current_dampings
from kfac.linalg.damped_functions import (
    INVERSE,
    Cholesky,
    CholeskyInverse,
    Eigenbasis,
    Power,
    UndampedMatrix,
)
from kfac.state import assign_all

v1 = tf.compat.v1


DAMPING = Damping("fc/w/input", lambda: {"fc/w/input": tf.constant(1.0)})


def make_slot():
    slot = MatrixSlot(INVERSE, DAMPING)
    slot.make_variables([2, 2], tf.float32, "")
    return slot


def test_dampings_are_computed_once():
    calls = []

    def layer():
        calls.append("layer")
        return {"input": 2.0, "output": 0.5}

    both = [Damping(name, layer) for name in ("input", "output")]
    other = Damping("other", lambda: {"other": 3.0})
    found = current_dampings([*both, both[0]])
    assert (found, calls) == ({"input": 2.0, "output": 0.5}, ["layer"])
    assert current_dampings([both[1], other], found) == {**found, "other": 3.0}
    assert calls == ["layer"]
    assert [damping.value() for damping in both] == [2.0, 0.5]
    assert calls == ["layer"] * 3


def test_variables(graph):
    slot = MatrixSlot(INVERSE, DAMPING)
    assert slot.variables == ()
    slot.make_variables([2, 2], tf.float32, "")
    slot.make_variables([2, 2], tf.float32, "")
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
    update = assign_all(slot.updated(UndampedMatrix(matrix), DAMPING.compute()))
    session.run(v1.global_variables_initializer())
    session.run(update, {matrix: np.eye(2)})
    for bad in (np.full([2, 2], np.nan), np.full([2, 2], np.inf)):
        session.run(update, {matrix: bad})
    np.testing.assert_allclose(session.run(slot.read()), np.eye(2) / 2)
    assert tuple(session.run(slot.read_rare_paths())) == (0, 0, 2)
    session.run(update, {matrix: np.diag([1.0, -2e4])})
    assert tuple(session.run(slot.read_rare_paths())) == (1, 1, 2)


@pytest.mark.parametrize(
    ("function", "leaf"),
    [
        (Power(-1), "inverse"),
        (Power(-0.5), "power_-0.5"),
        (Power(2.0), "power_2"),
        (Cholesky(), "cholesky"),
        (CholeskyInverse(), "cholesky_inverse"),
        (Eigenbasis(), "eigenbasis"),
    ],
)
def test_names(graph, function, leaf):
    slot = MatrixSlot(function, DAMPING)
    slot.make_variables([2, 2], tf.float32, "")
    names = [v.op.name for v in slot.variables]
    assert names == [f"kfac/fc/w/input/{leaf}", f"kfac/fc/w/input/{leaf}_rare_paths"]


def test_power_from_an_eigendecomposition(graph, session):
    slot = MatrixSlot(Power(-0.5), DAMPING)
    slot.make_variables([2, 2], tf.float32, "")
    matrix = UndampedMatrix(tf.constant(np.diag([3.0, 8.0]), tf.float32))
    update = assign_all(slot.updated(matrix, DAMPING.compute()))
    session.run(v1.global_variables_initializer())
    session.run(update)
    np.testing.assert_allclose(session.run(slot.read()), np.diag([0.5, 1 / 3]), rtol=1e-6)


@pytest.mark.parametrize("dtype", [tf.bfloat16, tf.float16, tf.float64])
def test_kept_in_another_dtype(graph, session, dtype):
    slot = MatrixSlot(Cholesky(), DAMPING)
    slot.make_variables([2, 2], dtype, "")
    matrix = tf.constant(np.diag([3.0, 8.0]), tf.float32)
    update = assign_all(slot.updated(UndampedMatrix(matrix), DAMPING.compute()))
    session.run(v1.global_variables_initializer())
    session.run(update)
    assert slot.read().dtype == dtype
    np.testing.assert_array_equal(session.run(tf.cast(slot.read(), tf.float32)), np.diag([2, 3]))
