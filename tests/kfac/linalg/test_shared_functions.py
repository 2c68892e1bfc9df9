import numpy as np
import tensorflow as tf

from kfac.linalg.shared_functions import SharedFunction, reading_function

v1 = tf.compat.v1

SUM_AND_PRODUCT = SharedFunction(
    lambda x, y: (x + y, tf.matmul(x, y)), [tf.TensorSpec([2, 2], tf.float32)] * 2
)


def test_results_and_their_shapes(graph, session):
    x = v1.placeholder(tf.float32, [None, None])
    total, product = SUM_AND_PRODUCT(x, tf.eye(2))
    assert total.shape == product.shape == tf.TensorShape([2, 2])
    (unknown,) = SharedFunction(tf.transpose, [tf.TensorSpec([None, 2], tf.float32)])(x)
    assert (unknown.dtype, unknown.shape.as_list()) == (tf.float32, [2, None])
    matrix = np.arange(4.0).reshape(2, 2)
    found = session.run([total, product], {x: matrix})
    np.testing.assert_array_equal(found, [matrix + np.eye(2), matrix])


def test_all_graphs_call_one_function_without_devices():
    names = set()
    for device in ("/cpu:1", "/job:worker/task:7/cpu:0"):
        with tf.Graph().as_default() as graph, v1.device(device):
            before = tf.constant(1.0)
            with v1.control_dependencies([before]):
                SUM_AND_PRODUCT(tf.eye(2), tf.eye(2))
                SUM_AND_PRODUCT(tf.eye(2), tf.eye(2))
        definition = graph.as_graph_def()
        names |= {node.attr["f"].func.name for node in definition.node if "f" in node.attr}
        (function,) = definition.library.function
        assert {node.device for node in function.node_def} == {""}
    assert len(names) == 1


def test_calls_in_branches_and_in_functional_loops(graph, session):
    wanted = v1.placeholder(tf.bool, [])
    ones = tf.ones([2, 2])
    branch = tf.cond(wanted, lambda: SUM_AND_PRODUCT(ones, ones)[1], lambda: ones)
    loop = tf.while_loop(lambda _: True, doubled, [ones], maximum_iterations=3)
    assert session.run(branch, {wanted: True})[0, 0] == 2
    assert session.run(branch, {wanted: False})[0, 0] == 1
    assert session.run(loop)[0][0, 0] == 8


def doubled(x):
    return SUM_AND_PRODUCT(x, x)[0]


WEIGHTED = reading_function(
    lambda w, b, x: w * x + b,
    [tf.TensorSpec([None], tf.float32), tf.TensorSpec([], tf.float32)],
    [tf.TensorSpec([], tf.float32)],
    name="weighted",
)


def variable(value):
    return v1.Variable(np.float32(value), use_resource=True)


def test_variables_are_read_when_a_function_runs(graph, session):
    w, b, x = variable([1.0, 2.0]), variable(0.5), v1.placeholder(tf.float32, [])
    with v1.control_dependencies([v1.assign(b, 1.5).op]):
        (found,) = WEIGHTED(w.handle, b.handle, x)
    session.run(v1.global_variables_initializer())
    np.testing.assert_array_equal(session.run(found, {x: 3.0}), [4.5, 7.5])


def test_variables_of_all_sizes_share_a_function(graph, session):
    b = variable(0.0)
    calls = [WEIGHTED(variable(range(n)).handle, b.handle, tf.constant(2.0)) for n in (2, 4)]
    session.run(v1.global_variables_initializer())
    assert [found.tolist() for (found,) in session.run(calls)] == [[0, 2], [0, 2, 4, 6]]
    assert len(graph.as_graph_def().library.function) == 1
    assert {call.op.type for (call,) in calls} == {"StatefulPartitionedCall"}
