"""Copies of variables, and views that towers use in turn."""

import numpy as np
import pytest
import tensorflow as tf

from replicate.batch_norm.variable_copies import VariableCopies, assign_all, read_all
from replicate.batch_norm.variables_in_turn import VariablesInTurn

v1 = tf.compat.v1


def original(name, shape=(2,), use_resource=True):
    initializer = v1.constant_initializer(1.0)
    return v1.get_variable(name, shape, initializer=initializer, use_resource=use_resource)


@pytest.mark.parametrize("use_resource", [True, False])
@pytest.mark.parametrize("is_set", [True, False])
def test_copies_begin_as_the_originals_are(graph, use_resource, is_set):
    originals = [original("a", use_resource=use_resource), original("b", (2, 3), use_resource)]
    copies = VariableCopies().on("/cpu:0", originals, "copy")
    packed = VariableCopies().packed("/cpu:0", originals[:1], "packed")
    changes = [variable.assign_add(tf.ones(variable.shape)) for variable in originals]
    with v1.Session() as session:
        if is_set:
            session.run([variable.initializer for variable in originals])
            session.run(changes)
        session.run(v1.local_variables_initializer())
        if is_set:
            session.run(changes)
        for value, variable in zip(session.run(copies), originals, strict=True):
            np.testing.assert_array_equal(value, np.full(variable.shape, 2.0 if is_set else 1.0))
        np.testing.assert_array_equal(session.run(packed), [[2.0 if is_set else 1.0] * 2])


def test_copies_are_variables(graph):
    first, second = originals = [original("a"), original("b")]
    maker = VariableCopies()
    with v1.control_dependencies([tf.constant(0)]), v1.name_scope("tower"):
        copies = [*maker.on("/cpu:0", originals, "copy"), *maker.on("/cpu:0", originals, "copy")]
    assert [copy.op.name for copy in copies] == ["a/copy", "b/copy", "a/copy_1", "b/copy_1"]
    assert v1.local_variables() == copies
    assert v1.global_variables() == originals
    for copy, variable in zip(copies, [first, second, first, second], strict=True):
        assert isinstance(copy, tf.Variable)
        assert not copy.trainable
        assert (copy.dtype, copy.shape) == (variable.dtype, variable.shape)
        assert copy.device == "/device:CPU:0"
    *_, last = copies
    with v1.Session() as session:
        session.run([v1.global_variables_initializer()])
        assert session.run(v1.report_uninitialized_variables(copies)).size == len(copies)
        session.run(v1.local_variables_initializer())
        session.run(v1.assign_sub(last, [0.25, 0.5]))
        session.run(last.assign(2.0 * last))
        np.testing.assert_array_equal(session.run(last), [1.5, 1.0])
        np.testing.assert_array_equal(session.run([*copies[:3], second]), np.ones([4, 2]))


@pytest.mark.parametrize("use_resource", [True, False])
def test_read_values_do_not_change_later(graph, use_resource):
    variable = original("a", use_resource=use_resource)
    (value,) = read_all([variable])
    with v1.control_dependencies([value]):
        change = v1.assign_add(variable, [1.0, 1.0])
    with v1.control_dependencies([change]):
        later = tf.identity(value)
    with v1.Session() as session:
        session.run(variable.initializer)
        np.testing.assert_array_equal(session.run(later), [1.0, 1.0])
        np.testing.assert_array_equal(session.run(read_all([variable])), [[2.0, 2.0]])


@pytest.mark.parametrize("use_resource", [True, False])
def test_many_variables_are_assigned_on_their_devices(graph, use_resource):
    with v1.device("/cpu:1"):
        variables = [original(name, use_resource=use_resource) for name in ("a", "b")]
    before = read_all(variables)
    with v1.control_dependencies(before):
        assigned = assign_all([(variables[0], tf.constant([3.0, 4.0])), (variables[1], before[0])])
    assert [operation.device for operation in assigned] == ["/device:CPU:1"] * 2
    with v1.Session(config=v1.ConfigProto(device_count={"CPU": 2})) as session:
        session.run([variable.initializer for variable in variables])
        session.run(assigned)
        np.testing.assert_array_equal(session.run(read_all(variables)), [[3.0, 4.0], [1.0, 1.0]])


@pytest.mark.parametrize("use_resource", [True, False])
def test_views_are_used_in_order(graph, use_resource):
    variable = v1.get_variable("scope/v", initializer=1.0, use_resource=use_resource)
    turns, view, updates = VariablesInTurn(), variable, []
    for number in range(1, 5):
        before = set(graph.get_operations())
        updates.append(v1.assign(view, view * 10.0 + number).op)
        runs = {each for each in graph.get_operations() if each not in before}
        turns.record([variable], runs, updates[-1:])
        view = turns.view(variable)
    with v1.Session() as session:
        session.run(v1.global_variables_initializer())
        for _ in range(10):
            session.run(variable.initializer)
            session.run(updates[::-1])
            assert session.run(variable) == 11234.0


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


def test_view_waits_for_nothing_if_the_variable_was_not_used(graph):
    with v1.device("/cpu:1"):
        variable = v1.get_variable("v", initializer=[1.0, 2.0])
    turns = VariablesInTurn()
    turns.record([variable], set(), [])
    with v1.control_dependencies([tf.no_op()]), v1.device("/cpu:2"):
        view = turns.view(variable)
    assert view.op.control_inputs == []
    assert (view.shape, view.dtype.base_dtype) == (variable.shape, variable.dtype.base_dtype)
    assert turns.operations_of(variable) == [view.op]
    assert v1.global_variables() == [variable]
    with v1.Session() as session:
        session.run(variable.initializer)
        assert session.run(view).tolist() == [1.0, 2.0]


def test_view_waits_for_outputs_of_branches(graph):
    variable = v1.get_variable("v", initializer=1.0)
    before = set(graph.get_operations())
    branch = tf.cond(variable > 0.0, lambda: variable.assign_add(1.0), lambda: variable + 0.0)
    turns = VariablesInTurn()
    turns.record([variable], set(graph.get_operations()) - before, [branch.op])
    assert turns.view(variable).op.control_inputs == [branch.op]
