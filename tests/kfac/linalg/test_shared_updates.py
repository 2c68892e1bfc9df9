import numpy as np
import tensorflow as tf

from kfac.linalg.shared_updates import SharedUpdate

v1 = tf.compat.v1


def add_twice(variable, other, value):
    for _ in range(2):
        read = tf.raw_ops.ReadVariableOp(resource=variable, dtype=tf.float32)
        tf.raw_ops.AssignVariableOp(resource=variable, value=read + value)
    tf.raw_ops.AssignAddVariableOp(resource=other, value=read)


UPDATE = SharedUpdate(add_twice, 2, [tf.TensorSpec(None, tf.float32)], name="add_twice")


def make_variables(shape, device=""):
    with v1.device(device):
        return [v1.Variable(tf.zeros(shape), use_resource=True) for _ in range(2)]


def test_reads_and_changes_happen_in_order(graph, session):
    variables, matrices = make_variables([2]), make_variables([2, 2])
    updates = [UPDATE(variables, tf.constant([1.0, 2.0])), UPDATE(matrices, tf.eye(2))]
    session.run(v1.global_variables_initializer())
    for _ in range(2):
        session.run(updates)
    first, second = session.run(variables)
    np.testing.assert_array_equal([first, second], [[4, 8], [4, 8]])
    np.testing.assert_array_equal(session.run(matrices[0]), 4 * np.eye(2))


def test_it_runs_where_the_first_variable_is(graph):
    variables = make_variables([], "/job:ps/task:1/cpu:0")
    with v1.device("/job:worker/task:0/cpu:0"):
        update = UPDATE(variables, tf.constant(1.0))
    assert (update.name, update.device) == ("add_twice", "/job:ps/task:1/device:CPU:0")
