import threading

import numpy as np
import pytest
import tensorflow as tf

from kfac import state

v1 = tf.compat.v1


def test_names_are_absolute_and_getters_are_not_asked(graph):
    def refuse(*_, **__):
        raise AssertionError("a custom getter must not see K-FAC's variables")

    scope = v1.variable_scope("model", custom_getter=refuse, use_resource=False)
    with scope, v1.name_scope("tower_1"):
        variable = state.make_variable("conv/w/cov", [2, 2], tf.float64)
        counter = state.make_counter("counter")
    assert (variable.op.name, counter.op.name) == ("kfac/conv/w/cov", "kfac/counter")
    assert (variable.dtype.base_dtype, counter.dtype.base_dtype) == (tf.float64, tf.int64)
    assert v1.global_variables() == [variable, counter]
    assert v1.trainable_variables() == []
    assert variable.op.type == counter.op.type == "VarHandleOp"


def test_initial_value_does_not_wait_for_control_dependencies(graph, session):
    failing = tf.debugging.Assert(False, ["never to be run"])
    with v1.control_dependencies([failing]):
        variable = state.make_counter("counter")
    session.run(variable.initializer)
    assert session.run(variable) == 0


def test_what_is_not_wanted_is_known_at_once(graph):
    """The work waits until the condition is known, which must not wait for the work."""
    wanted, known = v1.placeholder(tf.bool, []), threading.Event()
    work = tf.numpy_function(lambda: known.wait(60), [], tf.bool)
    condition = state.Gate(wanted).known_after(work.op)
    tell = tf.numpy_function(lambda _: known.set(), [condition], [])
    several = v1.ConfigProto(inter_op_parallelism_threads=4)
    with v1.Session(config=several) as session:
        assert session.run([condition, work, tell], {wanted: False})[:2] == [False, True]


def test_what_is_wanted_is_known_after_the_work(graph, session):
    counter = state.make_counter("counter")
    work = state.assign_all([state.Assignment(counter, state.read(counter) + 1)])
    with v1.control_dependencies([state.Gate(tf.constant(True)).known_after(work)]):
        seen = state.read(counter)
    session.run(counter.initializer)
    assert [session.run(seen) for _ in range(3)] == [1, 2, 3]


def test_additions_and_what_follows_the_work(graph, session):
    a, b, runs, finished = (state.make_counter(name) for name in ("a", "b", "runs", "finished"))
    due = v1.placeholder(tf.bool, [])

    def compute():
        return [state.Addition(a, tf.constant(2, tf.int64)), state.Assignment(b, state.read(b) + 5)]

    def finish(done):
        with v1.control_dependencies([done]):
            return state.assign_all([state.Addition(finished, tf.constant(1, tf.int64))])

    op = state.run_if(due, lambda: finish(state.assign_all(compute())))
    always = state.assign_all([state.Addition(runs, tf.constant(1, tf.int64))])
    session.run(v1.global_variables_initializer())
    for is_due in (True, False, True):
        session.run([op, always], {due: is_due})
    assert session.run([a, b, finished, runs]) == [4, 10, 2, 3]


@pytest.mark.parametrize("use_resource", [True, False])
def test_branch_reads_after_the_control_dependencies(graph, session, use_resource):
    source = v1.Variable(0, dtype=tf.int64, use_resource=use_resource)
    target = state.make_counter("target")
    due = v1.placeholder_with_default(tf.constant(True), [])
    slow = tf.reduce_sum(tf.linalg.svd(tf.random.stateless_normal([60, 60], [1, 2]))[0])
    with v1.control_dependencies([slow]):
        first = state.assign_all([state.Assignment(source, state.read(source) + 1)])
    with v1.control_dependencies([first]):
        op = state.run_if(
            due, lambda: state.assign_all([state.Assignment(target, state.read(source))])
        )
    session.run(v1.global_variables_initializer())
    for expected in (1, 2, 3):
        session.run(op)
        assert session.run(target) == expected


@pytest.mark.parametrize("use_resource", [True, False])
def test_what_was_read_does_not_change_with_the_variable(graph, session, use_resource):
    variable = v1.Variable(0, use_resource=use_resource)
    wanted = v1.placeholder_with_default(tf.constant(True), [])
    before = state.read(variable)
    with v1.control_dependencies([state.assign_all([state.Assignment(variable, before + 1)])]):
        later = 1 * before
        branch = state.value_if(wanted, lambda: 2 * state.read(variable), tf.constant(-1))
    session.run(v1.global_variables_initializer())
    assert session.run([before, later, branch]) == [0, 0, 2]
    assert session.run(branch, {wanted: False}) == -1
    assert session.run(branch) == 6


def test_initial_values_and_zeros_that_are_not_kept(graph, session, largest_constant):
    for name, initial in (("b", 2.5), ("c", lambda: tf.constant([2.5, 2.5]))):
        variable = state.make_variable(name, [2], tf.float32, initial=initial)
        session.run(variable.initializer)
        assert session.run(variable).tolist() == [2.5, 2.5]
    variable = state.make_variable("a", [30, 40], tf.float64)
    assert variable.shape == [30, 40]
    assert largest_constant(variable.initializer) < 30 * 40
    np.testing.assert_array_equal(session.run(variable), np.zeros([30, 40]))


def test_variables_begin_with_the_same_zeros_and_change_alone(graph, session):
    first, second = (state.make_variable(name, [30, 40], tf.float32, "/cpu:0") for name in "ab")
    assert first.initializer.inputs[1] is second.initializer.inputs[1]
    other = state.make_variable("c", [30, 40], tf.float32, "/cpu:1")
    assert other.initializer.inputs[1] is not first.initializer.inputs[1]
    session.run([first.initializer, second.initializer])
    ones = tf.ones([30, 40])
    session.run(state.assign_all([state.Addition(first, ones)]))
    session.run(first.assign_add(ones))
    found = session.run([first, second])
    np.testing.assert_array_equal(found, np.stack([np.full([30, 40], 2), np.zeros([30, 40])]))


def test_what_is_asked_of_a_read_value_waits_for_the_read(graph, session):
    """TensorFlow's optimizer of graphs asks the variable itself where it may."""
    variable = v1.Variable(1.0, use_resource=False)
    counter = state.make_counter("counter")
    with v1.control_dependencies([state.assign_all([state.Addition(counter, 1)])]):
        value = state.read(variable)
        asked = tf.math.is_finite(value)
    session.run(v1.global_variables_initializer())
    metadata = v1.RunMetadata()
    options = v1.RunOptions(output_partition_graphs=True)
    found = session.run(tf.cast(asked, tf.float32) + value, options=options, run_metadata=metadata)
    assert found == 2.0
    takers = [
        node.op
        for part in metadata.partition_graphs
        for node in part.node
        if variable.op.name in node.input
    ]
    assert takers == ["Identity"]


def test_counters_and_groups_are_on_the_cpu(graph):
    with v1.device("/device:GPU:1"):
        counter = state.make_counter("counter")
        given = state.make_counter("given", "/device:GPU:2")
        done = state.group(counter.initializer, given.initializer)
    assert [each.device for each in (counter, given, done)] == [
        "/device:CPU:0",
        "/device:GPU:2",
        "/device:CPU:0",
    ]


def test_predicate_is_on_the_cpu_and_branch_where_it_was(graph):
    v1.disable_control_flow_v2()
    try:
        with v1.device("/job:worker"):
            condition = v1.placeholder(tf.bool, [])
            before = set(graph.get_operations())
            found = state.value_if(condition, lambda: tf.ones([2]) + 1, tf.zeros([2]))
    finally:
        v1.enable_control_flow_v2()
    made = set(graph.get_operations()) - before
    predicates = {each.device for each in made if each.type == "Switch" and "pred" in each.name}
    predicates |= {each.device for each in made if each.name.endswith("pred_id")}
    assert predicates == {"/job:worker/device:CPU:0"}
    assert found.device == "/job:worker"
