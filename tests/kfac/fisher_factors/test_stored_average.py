"""Functions that read averages when they run."""

import numpy as np
import tensorflow as tf

from kfac.fisher_factors.stored_average import (
    StoredAverage,
    are_together,
    split_damping_of,
    trace_of_diagonal,
    trace_of_matrix,
    traces_of,
)
from kfac.state import make_variable

v1 = tf.compat.v1
A = np.arange(9.0).reshape(3, 3)
G = np.arange(2.0, 6.0)


def stored(values, weight, trace, device="", dtype=tf.float64):
    name = f"average_{len(v1.global_variables())}"
    return StoredAverage(
        make_variable(name, values.shape, dtype, device, lambda: tf.constant(values, dtype)),
        make_variable(f"{name}/weight", [], dtype, device, weight),
        trace,
    )


def test_traces_are_read_after_what_they_wait_for(graph, session):
    average = stored(A, 2.0, trace_of_matrix)
    found = [
        traces_of(average),
        traces_of(stored(A[:2, :2], 4.0, trace_of_matrix)),
        traces_of(stored(G, 2.0, trace_of_diagonal)),
    ]
    assigned = v1.assign(average.weight, 4.0)
    with v1.control_dependencies([assigned.op]):
        later, _ = traces_of(average)
    session.run(v1.global_variables_initializer())
    np.testing.assert_array_equal(session.run(found), [[6, 2], [1, 0.5], [7, 1.75]])
    assert session.run(later) == 3


def test_functions_are_called_where_the_variables_are(graph):
    a, g = (stored(A, 2.0, trace_of_matrix, "/device:CPU:1") for _ in range(2))
    with v1.device("/device:CPU:0"):
        tensors = [*traces_of(a), *split_damping_of(a, g, tf.constant(1.0, tf.float64))]
    assert {tensor.device for tensor in tensors} == {"/device:CPU:1"}


def test_variables_on_one_device_are_together(graph):
    first, second = (stored(A, 1.0, trace_of_matrix, f"/cpu:{i}") for i in range(2))
    nowhere = stored(A, 1.0, trace_of_matrix)
    assert are_together(first.variables)
    assert are_together(first.variables, "/device:CPU:0")
    assert are_together(nowhere.variables, "")
    assert not are_together(first.variables, "/device:CPU:1")
    assert not are_together(first.variables, "")
    assert not are_together([*first.variables, *second.variables])
    assert not are_together([*first.variables, *nowhere.variables])


def test_nothing_is_together_in_functions_nor_as_references(graph):
    average = stored(A, 1.0, trace_of_matrix)
    found = []

    def ask():
        found.append(are_together(average.variables))
        return tf.constant(0)

    tf.function(ask).get_concrete_function()
    reference = v1.Variable(0.0, use_resource=False)
    assert found == [False]
    assert not are_together([reference])
