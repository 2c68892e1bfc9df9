"""Copies of variables, and views that towers use in turn."""

import numpy as np
import pytest
import tensorflow as tf

from replicate.batch_norm.variable_copies import VariableCopies, read_all
from replicate.batch_norm.variables_in_turn import VariablesInTurn

v1 = tf.compat.v1


def original(name, shape=(2,), use_resource=True):
    initializer = v1.constant_initializer(1.0)
    return v1.get_variable(name, shape, initializer=initializer, use_resource=use_resource)


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
