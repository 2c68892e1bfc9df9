"""Functions, updates, constants and numbers that all layers of a graph share."""

import functools

import numpy as np
import tensorflow as tf

from kfac.linalg import damped_matrix
from kfac.linalg.shared_constants import shared_constant
from kfac.linalg.shared_functions import SharedFunction, reading_function
from kfac.linalg.shared_numbers import as_argument
from kfac.linalg.shared_updates import SharedUpdate

v1 = tf.compat.v1


@functools.cache
def sum_and_product():
    return SharedFunction(
        lambda x, y: (x + y, tf.matmul(x, y)), [tf.TensorSpec([2, 2], tf.float32)] * 2
    )


def test_all_graphs_call_one_function_without_devices():
    names = set()
    for device in ("/cpu:1", "/job:worker/task:7/cpu:0"):
        with tf.Graph().as_default() as graph, v1.device(device):
            before = tf.constant(1.0)
            with v1.control_dependencies([before]):
                sum_and_product()(tf.eye(2), tf.eye(2))
                sum_and_product()(tf.eye(2), tf.eye(2))
        definition = graph.as_graph_def()
        names |= {node.attr["f"].func.name for node in definition.node if "f" in node.attr}
        (function,) = definition.library.function
        assert {node.device for node in function.node_def} == {""}
    assert len(names) == 1


@functools.cache
def weighted():
    scalar = tf.TensorSpec([], tf.float32)
    variables = [tf.TensorSpec([None], tf.float32), scalar]
    return reading_function(lambda w, b, x: w * x + b, variables, [scalar], name="weighted")


def variable(value):
    return v1.Variable(np.float32(value), use_resource=True)


def test_variables_of_all_sizes_share_a_function(graph, session):
    b = variable(0.0)
    calls = [weighted()(variable(range(n)).handle, b.handle, tf.constant(2.0)) for n in (2, 4)]
    session.run(v1.global_variables_initializer())
    assert [found.tolist() for (found,) in session.run(calls)] == [[0, 2], [0, 2, 4, 6]]
    assert len(graph.as_graph_def().library.function) == 1
    assert {call.op.type for (call,) in calls} == {"StatefulPartitionedCall"}


def add_twice(variable, other, value):
    for _ in range(2):
        read = tf.raw_ops.ReadVariableOp(resource=variable, dtype=tf.float32)
        tf.raw_ops.AssignVariableOp(resource=variable, value=read + value)
    tf.raw_ops.AssignAddVariableOp(resource=other, value=read)


@functools.cache
def shared_update():
    return SharedUpdate(add_twice, 2, [tf.TensorSpec(None, tf.float32)], name="add_twice")


def make_variables(shape, device=""):
    with v1.device(device):
        return [v1.Variable(tf.zeros(shape), use_resource=True) for _ in range(2)]


def test_reads_and_changes_happen_in_order(graph, session):
    variables, matrices = make_variables([2]), make_variables([2, 2])
    updates = [
        shared_update()(variables, tf.constant([1.0, 2.0])),
        shared_update()(matrices, tf.eye(2)),
    ]
    session.run(v1.global_variables_initializer())
    for _ in range(2):
        session.run(updates)
    first, second = session.run(variables)
    np.testing.assert_array_equal([first, second], [[4, 8], [4, 8]])
    np.testing.assert_array_equal(session.run(matrices[0]), 4 * np.eye(2))


def test_it_runs_where_the_first_variable_is(graph):
    variables = make_variables([], "/job:ps/task:1/cpu:0")
    with v1.device("/job:worker/task:0/cpu:0"):
        update = shared_update()(variables, tf.constant(1.0))
    assert (update.name, update.device) == ("add_twice", "/job:ps/task:1/device:CPU:0")


def test_a_factor_adds_few_operations(graph):
    """Inverses of all sizes are calls of one function."""
    counts = []
    for size in (2, 3):
        matrix = v1.placeholder(tf.float32, [size, size])
        damped_matrix.damped_inverse(matrix, tf.constant(1.0), tf.identity(matrix))
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
