"""Assigned variables and folds are found through copies, switches and functions."""

import pytest
import tensorflow as tf

from replicate.batch_norm.assignments import Assignments
from replicate.batch_norm.folds import FoldSearch

v1 = tf.compat.v1


def add_one(variable):
    return lambda: variable.assign_add(1.0, read_value=False)


def in_cond(variable):
    tf.cond(v1.placeholder(tf.bool, []), add_one(variable), tf.no_op)


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
        (in_loop, True),
        (in_function_of_a_branch, True),
    ],
)
def test_assigned_variable_is_found(graph, make, is_in_branch):
    assert found(graph, make) == (["written"], [is_in_branch])


def test_assigned_reference_variable_is_found(graph):
    with v1.variable_scope("", use_resource=False):
        assert found(graph, directly) == (["written"], [False])


class Tower:
    """A graph with a batch and a variable, and the search in it."""

    def __init__(self, graph):
        self.graph = graph
        self.batch = v1.placeholder(tf.float32, [])
        self.variable = v1.get_variable("v", initializer=1.0, trainable=False)

    def search(self, ends, listed=(), unlisted=(), asked_for=()):
        operations = self.graph.get_operations()
        return FoldSearch(operations, [self.batch], ends).find(
            list(listed), set(unlisted), set(asked_for)
        )


@pytest.fixture
def tower(graph):
    return Tower(graph)


def after(operation, value):
    with v1.control_dependencies([operation]):
        return tf.identity(value).op


@pytest.mark.parametrize("sees_batch", [True, False])
@pytest.mark.parametrize("is_awaited", [True, False])
@pytest.mark.parametrize("group", ["unlisted", "asked_for"])
def test_updates_in_no_collection_depend_on_the_batch(tower, sees_batch, is_awaited, group):
    value = 2.0 * tower.batch if sees_batch else 2.0
    update = v1.assign_add(tower.variable, value).op
    [update] = [each for each in tower.graph.get_operations() if each.type == "AssignAddVariableOp"]
    end = after(update, tower.batch) if is_awaited else tower.batch.op
    found = tower.search([end], **{group: [tower.variable.op]})
    counts = sees_batch and (is_awaited or group == "unlisted")
    assert found.done == ([update] if counts else [])
    assert found.assigned == ({tower.variable.op} if counts else set())
