"""Assigned variables and folds are found in a graph; values and views of them are in order."""

import pytest
import tensorflow as tf

from replicate.batch_norm.assignments import Assignments
from replicate.batch_norm.folds import FoldSearch
from replicate.batch_norm.variable_copies import assign_all, read_all
from replicate.batch_norm.variables_in_turn import VariablesInTurn

v1 = tf.compat.v1


def add_one(variable):
    return lambda: variable.assign_add(1.0, read_value=False)


def in_nested_cond(variable):
    inner, outer = v1.placeholder(tf.bool, []), v1.placeholder(tf.bool, [])
    tf.cond(outer, tf.no_op, lambda: tf.cond(inner, add_one(variable), tf.no_op))


def in_loop(variable):
    def body(number):
        with tf.control_dependencies([variable.assign_add(1.0)]):
            return (number + 1.0,)

    tf.while_loop(lambda number: number < 3.0, body, [tf.constant(0.0)])


def in_function(variable):
    def add():
        variable.assign_add(1.0)
        return tf.constant(0.0)

    tf.function(add)()


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
        (by_a_copy_of_the_handle, False),
        (in_function, False),
        (by_a_switch, True),
        (in_nested_cond, True),
        (in_loop, True),
    ],
)
def test_assigned_variable_is_found(graph, make, is_in_branch):
    assert found(graph, make) == (["written"], [is_in_branch])


def test_assigned_reference_variable_is_found(graph):
    with v1.variable_scope("", use_resource=False):
        assert found(graph, lambda variable: v1.assign_sub(variable, 1.0)) == (["written"], [False])


@pytest.mark.parametrize("sees_batch", [True, False])
@pytest.mark.parametrize("is_awaited", [True, False])
@pytest.mark.parametrize("group", ["unlisted", "asked_for"])
def test_updates_in_no_collection_depend_on_the_batch_or_are_awaited(
    graph, sees_batch, is_awaited, group
):
    batch = v1.placeholder(tf.float32, [])
    variable = v1.get_variable("v", initializer=1.0, trainable=False)
    v1.assign_add(variable, 2.0 * batch if sees_batch else 2.0)
    [update] = [each for each in graph.get_operations() if each.type == "AssignAddVariableOp"]
    with v1.control_dependencies([update] if is_awaited else []):
        end = tf.identity(batch).op
    groups = {"unlisted": set(), "asked_for": set(), group: {variable.op}}
    found = FoldSearch(graph.get_operations(), [batch], [end]).find([], *groups.values())
    counts = is_awaited or (sees_batch and group == "unlisted")
    assert found.done == ([update] if counts else [])
    assert found.assigned == ({variable.op} if counts else set())


@pytest.mark.parametrize("use_resource", [True, False])
def test_view_waits_for_a_tower_that_only_reads(graph, use_resource):
    variable = v1.get_variable("v", initializer=1.0, use_resource=use_resource)
    before = set(graph.get_operations())
    tf.multiply(variable, 2.0)
    runs = set(graph.get_operations()) - before
    turns = VariablesInTurn()
    turns.record([variable], runs, [])
    awaited = turns.view(variable).op.control_inputs
    assert [each.type for each in awaited] == ["ReadVariableOp" if use_resource else "Mul"]
    assert set(awaited) <= runs


@pytest.mark.parametrize("use_resource", [True, False])
def test_variables_are_assigned_on_their_devices_in_the_name_scope(graph, use_resource):
    with v1.device("/cpu:1"):
        variable = v1.get_variable("v", initializer=[1.0, 2.0], use_resource=use_resource)
    with v1.name_scope("scope/"):
        [assigned] = assign_all([(variable, 2.0 * read_all([variable])[0])])
        again = read_all([variable])[0]
    assert assigned.name == "scope/assign/v"
    assert again.op.name == "scope/read/v_1"
    assert assigned.device == "/device:CPU:1"
    with v1.Session() as session:
        session.run(variable.initializer)
        session.run(assigned)
        assert session.run(again).tolist() == [2.0, 4.0]
