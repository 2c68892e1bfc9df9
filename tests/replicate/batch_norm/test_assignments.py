"""Assigned variables are found through copies, switches and functions."""

import pytest
import tensorflow as tf

from replicate.batch_norm.assignments import Assignments

v1 = tf.compat.v1


def add_one(variable):
    return lambda: variable.assign_add(1.0, read_value=False)


def in_cond(variable):
    tf.cond(v1.placeholder(tf.bool, []), add_one(variable), tf.no_op)


def in_nested_cond(variable):
    inner = v1.placeholder(tf.bool, [])
    tf.cond(
        v1.placeholder(tf.bool, []), tf.no_op, lambda: tf.cond(inner, add_one(variable), tf.no_op)
    )


def in_case(variable):
    tf.switch_case(v1.placeholder(tf.int32, []), [tf.no_op, add_one(variable)])


def in_loop(variable):
    def body(number):
        with tf.control_dependencies([variable.assign_add(1.0)]):
            return (number + 1.0,)

    tf.while_loop(lambda number: number < 3.0, body, [tf.constant(0.0)])


def function_of(variable):
    def add():
        variable.assign_add(1.0)
        return tf.constant(0.0)

    return tf.function(add)


def in_function(variable):
    function_of(variable)()


def in_function_of_a_branch(variable):
    tf.cond(v1.placeholder(tf.bool, []), function_of(variable), lambda: 1.0)


def directly(variable):
    v1.assign_sub(variable, 1.0)


def by_a_copy_of_the_handle(variable):
    tf.raw_ops.AssignVariableOp(resource=tf.identity(variable.handle), value=1.0)


def by_a_switch(variable):
    _, handle = tf.raw_ops.Switch(data=variable.handle, pred=v1.placeholder(tf.bool, []))
    tf.raw_ops.AssignVariableOp(resource=handle, value=1.0)


def found(graph, make):
    """Returns what `make` assigns of two variables, by name, and whether that is in a branch."""
    written, read = (v1.get_variable(name, initializer=1.0) for name in ("written", "read"))
    before = len(graph.get_operations())
    with v1.name_scope("made"):
        make(written)
        tf.cond(v1.placeholder(tf.bool, []), lambda: read + 1.0, lambda: read * 2.0)
    assignments = Assignments(graph)
    names, branches = [], []
    for operation in graph.get_operations()[before:]:
        assigned = assignments.assigned_by(operation)
        names += [each.name for each in assigned]
        branches += [assignments.is_in_branch(operation)] if assigned else []
    return names, branches


@pytest.mark.parametrize(
    ("make", "is_in_branch"),
    [
        (directly, False),
        (by_a_copy_of_the_handle, False),
        (in_function, False),
        (by_a_switch, True),
        (in_cond, True),
        (in_nested_cond, True),
        (in_case, True),
        (in_loop, True),
        (in_function_of_a_branch, True),
    ],
)
def test_assigned_variable_is_found(graph, make, is_in_branch):
    assert found(graph, make) == (["written"], [is_in_branch])


def test_assigned_reference_variable_is_found(graph):
    with v1.variable_scope("", use_resource=False):
        assert found(graph, directly) == (["written"], [False])
