"""Views of variables: towers that use them wait for each other, in order."""

import pytest
import tensorflow as tf

from replicate.batch_norm.variables_in_turn import VariablesInTurn

v1 = tf.compat.v1


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
        for _ in range(20):
            session.run(variable.initializer)
            session.run(updates[::-1])
            assert session.run(variable) == 11234.0


@pytest.mark.parametrize("use_resource", [True, False])
def test_view_waits_for_nothing_if_the_variable_was_not_used(graph, use_resource):
    with v1.device("/cpu:1"):
        variable = v1.get_variable("v", initializer=[1.0, 2.0], use_resource=use_resource)
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
