"""Operations that run only in some steps."""

import numpy as np
import pytest
import tensorflow as tf

from replicate.graph_ops.conditional import run_if, run_unless

v1 = tf.compat.v1


@pytest.fixture(params=["v2", "v1"])
def behavior(request):
    """TensorFlow as it is, and with the control flow that `disable_v2_behavior` brings back."""
    if request.param == "v1":
        v1.disable_control_flow_v2()
    yield
    v1.enable_control_flow_v2()


def run(op, wanted, values, fetch=()):
    """Runs `op` with each value of the placeholder; returns the variables after each run."""
    history = []
    with v1.Session() as session:
        session.run(v1.global_variables_initializer())
        for value in values:
            fetched = session.run([op, *fetch], {wanted: value})[1:]
            history.append((session.run({v.op.name: v for v in v1.global_variables()}), fetched))
    return history


@pytest.mark.parametrize("use_resource", [True, False])
def test_optimizer_applies_only_in_steps_that_meet_the_condition(graph, behavior, use_resource):
    wanted = v1.placeholder(tf.bool, [])
    with v1.variable_scope("", use_resource=use_resource):
        weights = v1.get_variable("w", initializer=[1.0, 2.0])
    optimizer = v1.train.AdamOptimizer(0.1)
    pairs = optimizer.compute_gradients(tf.reduce_sum(weights**2))
    op = run_if(wanted, lambda: optimizer.apply_gradients(pairs))
    history = run(op, wanted, [True, False, False, True])
    moved = [
        any((history[i][0][name] != history[i - 1][0][name]).any() for name in history[i][0])
        for i in (1, 2, 3)
    ]
    assert moved == [False, False, True]
    np.testing.assert_allclose(history[0][0]["w"], [0.9, 1.9], rtol=1e-6)


def test_conditions_nest(graph):
    outer, inner = (v1.placeholder_with_default(True, []) for _ in range(2))
    count = v1.get_variable("count", initializer=0)
    op = run_if(outer, lambda: run_if(inner, lambda: v1.assign_add(count, 1).op))
    with v1.Session() as session:
        session.run(v1.global_variables_initializer())
        for feed in ({outer: False}, {inner: False}, {outer: False, inner: False}):
            session.run(op, feed)
        assert session.run(count) == 0
        session.run(op)
        assert session.run(count) == 1


def test_operation_keeps_control_dependencies_in_order(graph):
    wanted = v1.placeholder(tf.bool, [])
    a, b = (v1.get_variable(name, initializer=1.0) for name in "ab")
    with v1.control_dependencies([v1.assign_add(a, 1.0)]):
        op = run_if(wanted, lambda: v1.assign(b, 10.0 * a.read_value()).op)
    with v1.control_dependencies([op]):
        last = b.read_value() + a.read_value()
    history = run(op, wanted, [False, True, False], [last])
    assert [fetched for _, fetched in history] == [[3.0], [33.0], [34.0]]


def test_summaries_are_empty_where_nothing_ran(graph):
    wanted = v1.placeholder(tf.bool, [])
    value = v1.get_variable("value", initializer=3.0)

    def make():
        v1.summary.scalar("seen", value)
        return v1.assign_add(value, 1.0).op

    v1.summary.scalar("always", value)
    op = run_if(wanted, make)
    history = run(op, wanted, [True, False], [v1.summary.merge_all()])
    tags = [
        [entry.tag for entry in v1.Summary.FromString(fetched[0]).value] for _, fetched in history
    ]
    assert tags == [["always", "seen"], ["always"]]


def test_variables_made_inside_belong_to_the_graph(graph):
    wanted = v1.placeholder(tf.bool, [])

    def make():
        return v1.assign_add(v1.get_variable("made", initializer=1.0), 1.0).op

    history = run(run_if(wanted, make), wanted, [False, True])
    assert [values for values, _ in history] == [{"made": 1.0}, {"made": 2.0}]


def test_unless_runs_in_the_other_steps(graph, behavior):
    wanted = v1.placeholder(tf.bool, [])
    count = v1.get_variable("count", initializer=0)
    op = run_unless(wanted, lambda: count.assign_add(1).op)
    history = run(op, wanted, [True, False, False, True])
    assert [values["count"] for values, _ in history] == [0, 1, 2, 2]


def test_conditions_are_on_the_cpu_and_operations_where_they_were(graph):
    made = []
    with v1.device("/device:GPU:1"):
        wanted = v1.placeholder_with_default(True, [])
        before = set(graph.get_operations())
        run_if(wanted, lambda: made.append(v1.no_op()) or made[0])
    plumbing = set(graph.get_operations()) - before - set(made)
    assert {operation.device for operation in plumbing} == {"/device:CPU:0"}
    assert made[0].device == "/device:GPU:1"
