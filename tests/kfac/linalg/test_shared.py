"""Formulas that are one operation, and the constants and numbers that all layers share."""

import numpy as np
import tensorflow as tf

from kfac.linalg.damped_matrix import INVERSES, damped_function
from kfac.linalg.shared import (
    Reading,
    all_sizes,
    are_together,
    last_size,
    shared,
    shared_constant,
    sizes_above,
)
from kfac.linalg.tensor_ops import as_scalar
from kfac.state import Addition, Assignment, assign_all, read

v1 = tf.compat.v1


@shared
def sum_and_product(x, y):
    return x + y, tf.matmul(x, y)


def variable(value, device=""):
    with v1.device(device):
        return v1.Variable(np.float32(value), use_resource=True)


def functions_of(graph):
    return [function.signature.name for function in graph.as_graph_def().library.function]


def test_all_graphs_call_one_function_without_devices():
    names = set()
    for device in ("/cpu:1", "/job:worker/task:7/cpu:0"):
        with tf.Graph().as_default() as graph, v1.device(device):
            before = tf.constant(1.0)
            with v1.control_dependencies([before]):
                sum_and_product(tf.eye(2), tf.eye(2))
                found, _ = sum_and_product(tf.eye(3), tf.eye(3))
        definition = graph.as_graph_def()
        names |= {node.attr["f"].func.name for node in definition.node if "f" in node.attr}
        (function,) = definition.library.function
        assert {node.device for node in function.node_def} == {""}
        assert (found.op.type, found.shape.rank) == ("PartitionedCall", 2)
    assert len(names) == 1


@shared
def weighted(w, b, x, *, power=1):
    return read(w) * as_scalar(x, tf.float32) ** power + read(b)


def test_variables_of_all_sizes_share_a_function(graph, session):
    b = variable(0.0)
    calls = [weighted(variable(range(n)), b, tf.constant(2.0)) for n in (2, 4)]
    session.run(v1.global_variables_initializer())
    assert [found.tolist() for found in session.run(calls)] == [[0, 2], [0, 2, 4, 6]]
    assert len(functions_of(graph)) == 1
    assert {call.op.type for call in calls} == {"StatefulPartitionedCall"}


def test_it_is_traced_by_settings_and_not_by_numbers(graph, session):
    w, b = variable([1.0, 2.0]), variable(1.0)
    calls = [weighted(w, b, x, power=p) for x, p in ((2, 1), (3.0, 1), (3.0, 2), (lambda: 2, 2))]
    session.run(v1.global_variables_initializer())
    found = [call.tolist() for call in session.run(calls)]
    assert found == [[3, 5], [4, 7], [10, 19], [5, 9]]
    assert len(functions_of(graph)) == 2
    # TensorFlow makes a function anew for each call with a constant.
    numbers = [call.op.inputs[2] for call in calls]
    assert {number.op.type for number in numbers} == {"PlaceholderWithDefault"}
    assert len({number.name for number in numbers}) == 2
    assert not any(number.op.control_inputs for number in numbers)


def double(x):
    return 2 * x


def test_it_is_traced_by_the_sizes_that_matter(graph):
    for sizes, count in ((all_sizes, 3), (last_size, 2), (sizes_above(3), 2)):
        before = len(functions_of(graph))
        doubled = shared(double, sizes=sizes)
        shapes = [doubled(tf.ones(shape)).shape for shape in ([2, 3], [3, 3], [2, 4])]
        assert len(functions_of(graph)) - before == count
        assert [shape.rank for shape in shapes] == [2, 2, 2]


@shared
def add_twice(variable, other, value):
    added = 2 * value
    return assign_all([Assignment(variable, read(variable) + added), Addition(other, value)])


def test_changes_are_one_operation_where_the_variables_are(graph, session):
    with v1.device("/device:CPU:0"):
        pairs = [[variable(np.zeros(shape)) for _ in range(2)] for shape in ([2], [2, 2])]
    with v1.device("/device:CPU:1"):
        updates = [add_twice(*pairs[0], tf.constant([1.0, 2.0])), add_twice(*pairs[1], tf.eye(2))]
    assert {(update.type, update.device) for update in updates} == {
        ("StatefulPartitionedCall", "/device:CPU:0")
    }
    session.run(v1.global_variables_initializer())
    for _ in range(2):
        session.run(updates)
    np.testing.assert_array_equal(session.run(pairs[0]), [[4, 8], [2, 4]])
    np.testing.assert_array_equal(session.run(pairs[1][0]), 4 * np.eye(2))


def test_functions_of_variables_that_are_apart_are_called(graph, session):
    first, second = variable([1.0], "/cpu:0"), variable(2.0, "/cpu:1")
    found = [
        weighted(first, second, 3.0),
        weighted(first, first, 3.0, device="/cpu:1"),
        weighted(v1.Variable(1.0, use_resource=False), second, 3.0),
    ]
    update = add_twice(first, second, 1.0)
    assert not functions_of(graph)
    session.run(v1.global_variables_initializer())
    assert [x.tolist() for x in session.run(found)] == [[5], [4], 5]
    session.run(update)
    assert session.run([first, second]) == [[3], 3]


def test_functions_of_variables_are_called_in_functions():
    w, b = tf.Variable([1.0, 2.0]), tf.Variable(1.0)
    in_function = tf.function(lambda: weighted(w, b, 3.0))
    graph = in_function.get_concrete_function().graph
    assert "StatefulPartitionedCall" not in {op.type for op in graph.get_operations()}
    assert in_function().numpy().tolist() == weighted(w, b, 3.0).numpy().tolist() == [4, 7]


def test_variables_are_together_on_one_device(graph):
    first, second, nowhere = (variable(1.0, device) for device in ("/cpu:0", "/cpu:1", ""))
    counter = v1.Variable(0, use_resource=True)
    assert are_together([first, counter])
    assert are_together([first], "/device:CPU:0")
    assert are_together([nowhere], "")
    assert not are_together([first], "/device:CPU:1")
    assert not are_together([first], "")
    assert not are_together([first, second])
    assert not are_together([first, nowhere])


@shared
def half(w, b):
    return (read(w) + read(b)) / 2


@shared
def sum_of(first, second):
    return as_scalar(first, tf.float32) + as_scalar(second, tf.float32)


def test_readings_are_computed_by_the_operation_that_takes_them(graph, session):
    first, second = variable(1.0, "/cpu:0"), variable(3.0, "/cpu:0")
    reading = Reading(half, (first, second))
    before = len(graph.get_operations())
    together = sum_of(reading, reading)
    assert len(graph.get_operations()) == before + 1
    apart = sum_of(reading, Reading(half, (variable(1.0, "/cpu:1"), variable(2.0, "/cpu:1"))))
    result = sum_of(reading, lambda: tf.constant(1.0))
    with v1.control_dependencies([v1.assign(first, 5.0).op]):
        later = reading()
    session.run(v1.global_variables_initializer())
    assert session.run([together, apart, result]) == [4, 3.5, 3]
    assert session.run(later) == 4


@shared
def maybe_double(x, y):
    return x, None if y is None else 2 * y


def test_results_that_are_missing(graph, session):
    one = tf.constant(1.0)
    found = maybe_double(one, None), maybe_double(one, tf.constant(2.0))
    assert found[0][1] is None
    assert session.run([found[0][0], *found[1]]) == [1, 1, 4]


def test_a_factor_adds_few_operations(graph):
    """Inverses of all sizes are calls of one function."""
    counts = []
    for size in (2, 3):
        matrix = v1.placeholder(tf.float32, [size, size])
        damped_function(
            matrix, tf.constant(1.0), tf.identity(matrix), attempts=INVERSES["cholesky"]
        )
        counts.append(len(graph.get_operations()))
    assert counts[1] - counts[0] < 50
    calls = [op for op in graph.get_operations() if op.type == "PartitionedCall"]
    assert len({call.get_attr("f").name for call in calls}) == 1


def test_equal_constants_are_one(graph, session):
    with v1.control_dependencies([tf.constant(0)]), v1.name_scope("some"):
        first = shared_constant(1, [2], tf.float32)
    assert shared_constant(1, (2,), tf.float32) is first
    assert first.op.control_inputs == []
    assert not first.name.startswith("some")
    np.testing.assert_array_equal(session.run(first), [1, 1])
    others = [
        shared_constant(0, [2], tf.float32),
        shared_constant(1, [3], tf.float32),
        shared_constant(1, [2], tf.float64),
        shared_constant(1, [2], tf.float32, "/cpu:1"),
    ]
    assert len({tensor.name for tensor in (first, *others)}) == 5
    assert "CPU:1" in others[-1].device
    with tf.Graph().as_default() as other:
        assert shared_constant(1, [2], tf.float32).graph is other


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
