"""Copies of variables, and views that towers use in turn."""

import numpy as np
import pytest
import tensorflow as tf

from replicate.batch_norm.variable_copies import read_all
from replicate.batch_norm.variables_in_turn import VariablesInTurn

v1 = tf.compat.v1


def original(name, shape=(2,), use_resource=True):
    initializer = v1.constant_initializer(1.0)
    return v1.get_variable(name, shape, initializer=initializer, use_resource=use_resource)


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
