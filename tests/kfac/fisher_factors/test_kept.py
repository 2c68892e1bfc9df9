import numpy as np
import pytest
import tensorflow as tf

from kfac.fisher_factors.kept import (
    Damping,
    MatrixSlot,
    current_dampings,
    quotient,
    refresh_slots,
)
from kfac.linalg import damped_matrix
from kfac.linalg.damped_functions import (
    INVERSE,
    Cholesky,
    CholeskyInverse,
    Eigenbasis,
    Power,
)
from kfac.linalg.damped_matrix import INVERSES, LARGEST_BLOCK, damped_function
from kfac.linalg.shared import Reading
from kfac.state import assign_all, make_variable

v1 = tf.compat.v1


DAMPING = Damping("fc/w/input", lambda: {"fc/w/input": tf.constant(1.0)})


def updated(slot, matrix):
    """An op that computes the function of a slot."""
    changes = refresh_slots.function(
        matrix, [slot.variables], [DAMPING.value()],
        functions=[slot.function], method="cholesky", dtype=tf.float32,
    )  # fmt: skip
    return assign_all(changes)


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
    leaves = []
    for function, leaf in (
        (Power(-1), "inverse"),
        (Power(-0.5), "power_-0.5"),
        (Power(2.0), "power_2"),
        (Cholesky(), "cholesky"),
        (CholeskyInverse(), "cholesky_inverse"),
        (Eigenbasis(), "eigenbasis"),
    ):
        slot = MatrixSlot(function, DAMPING)
        assert slot.variables == ()
        for _ in range(2):
            slot.make_variables([2, 2], tf.float32, "")
        names = [f"kfac/fc/w/input/{leaf}", f"kfac/fc/w/input/{leaf}_rare_paths"]
        assert [variable.op.name for variable in slot.variables] == names
        leaves += names
    assert [variable.op.name for variable in v1.global_variables()] == leaves


def test_update_and_counters(graph, session):
    slot = MatrixSlot(INVERSE, DAMPING)
    slot.make_variables([2, 2], tf.float32, "")
    matrix = v1.placeholder(tf.float32, [2, 2])
    update = updated(slot, matrix)
    session.run(v1.global_variables_initializer())
    np.testing.assert_array_equal(session.run(slot.read()), np.zeros([2, 2]))
    session.run(update, {matrix: np.eye(2)})
    for bad in (np.full([2, 2], np.nan), np.full([2, 2], np.inf)):
        session.run(update, {matrix: bad})
    np.testing.assert_allclose(session.run(slot.read()), np.eye(2) / 2)
    assert tuple(session.run(slot.read_rare_paths())) == (0, 0, 2)
    session.run(update, {matrix: np.diag([1.0, -2e4])})
    assert tuple(session.run(slot.read_rare_paths())) == (1, 1, 2)


def test_kept_in_another_dtype(graph, session):
    slots, updates = [], []
    matrix = tf.constant(np.diag([3.0, 8.0]), tf.float32)
    for dtype in (tf.bfloat16, tf.float16, tf.float64):
        slots.append(MatrixSlot(Cholesky(), DAMPING))
        slots[-1].make_variables([2, 2], dtype, "")
        updates.append(updated(slots[-1], matrix))
        assert slots[-1].read().dtype == dtype
    session.run(v1.global_variables_initializer())
    session.run(updates)
    for found in session.run([tf.cast(slot.read(), tf.float32) for slot in slots]):
        np.testing.assert_array_equal(found, np.diag([2, 3]))


@pytest.mark.parametrize(
    ("size", "kept", "dtype"),
    [(3, tf.float64, tf.float64), (LARGEST_BLOCK + 2, tf.float16, tf.float32)],
)
@pytest.mark.parametrize(
    ("function", "attempts"),
    [
        (INVERSE, INVERSES["cholesky"]),
        (Cholesky(), damped_matrix.CHOLESKY),
        (CholeskyInverse(), damped_matrix.CHOLESKY_INVERSE),
    ],
)
def test_functions_of_averages(graph, session, size, kept, dtype, function, attempts):
    rows = np.random.RandomState(0).randn(2 * size, size)
    moment = rows.T @ rows
    total = make_variable("s", moment.shape, tf.float64, "", lambda: tf.constant(moment))
    weight = make_variable("w", [], tf.float64, "", 4.0)
    damping = tf.constant(0.5, dtype)
    slot = MatrixSlot(function, Damping("fc/input", lambda: {"fc/input": damping}))
    slot.make_variables(moment.shape, kept, "")
    source = Reading(quotient, (total, weight))
    update = refresh_slots(
        source, (slot.variables,), (damping,), device="",
        functions=(function,), method="cholesky", dtype=dtype,
    )  # fmt: skip
    assert update.type == "StatefulPartitionedCall"
    expected = damped_function(
        tf.cast(moment / 4, dtype), damping, tf.zeros(moment.shape, dtype), attempts=attempts
    ).matrix
    session.run(v1.global_variables_initializer())
    expected = session.run(tf.cast(expected, kept))
    for paths in ([0, 0, 0], [0, 0, 1]):
        session.run(update)
        np.testing.assert_array_equal(session.run(slot.read()), expected)
        np.testing.assert_array_equal(session.run(slot.read_rare_paths()), paths)
        session.run(v1.assign(weight, 0.0))  # Nothing usable: the function is kept.
