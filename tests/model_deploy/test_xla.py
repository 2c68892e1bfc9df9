"""Operations that XLA compiles, and equal results with and without it."""

import numpy as np
import pytest
import tensorflow as tf

from model_deploy import DeploymentConfig, deploy
from model_deploy.xla import compiled_by_xla, uncompiled

v1 = tf.compat.v1


def is_marked(operation):
    return "_XlaCompile" in operation.node_def.attr and operation.get_attr("_XlaCompile")


def types(operations, marked):
    return {operation.type for operation in operations if is_marked(operation) == marked}


def test_only_computation_is_marked_for_compilation(graph):
    with compiled_by_xla():
        weights = v1.get_variable("weights", [3, 2])
        table = tf.Variable(lambda: tf.random.uniform([4, 3]) * 2.0)
        started = graph.get_operations()
        rows = tf.gather(table, [1, 2])
        outputs = tf.nn.dropout(rows, 0.5) @ weights
        tf.random.stateless_uniform([2], seed=[1, 2])
        v1.assign(weights, tf.zeros([3, 2]))
        v1.debugging.Assert(tf.constant(value=True), ["never"])
        tf.debugging.check_numerics(outputs, "outputs")
    assert not any(map(is_marked, started))
    built = graph.get_operations()[len(started) :]
    assert types(built, marked=True) >= {"MatMul", "Mul", "GreaterEqual"}
    assert types(built, marked=False) == {
        "Assert",
        "AssignVariableOp",
        "CheckNumerics",
        "RandomUniform",
        "ReadVariableOp",
        "ResourceGather",
        "StatelessRandomGetKeyCounter",
        "StatelessRandomUniformV2",
    }


def test_functions_are_not_compiled(graph):
    with compiled_by_xla(), v1.control_dependencies(None):
        inputs = tf.constant([1.0, 2.0])
        tf.raw_ops.StatelessIf(
            cond=tf.reduce_sum(inputs) > 0.0,
            input=[inputs],
            Tout=[tf.float32],
            then_branch=tf.function(lambda x: x * 2.0).get_concrete_function(inputs),
            else_branch=tf.function(lambda x: x * 3.0).get_concrete_function(inputs),
        )
        tf.function(lambda x: x + 1.0)(inputs)
    assert types(graph.get_operations(), marked=False) == {"PartitionedCall", "StatelessIf"}


def test_gradients_outside_the_scope_are_compiled_but_not_their_consumers(graph):
    weights = tf.constant([[1.0], [2.0]])
    with compiled_by_xla():
        loss = tf.reduce_sum(tf.square(tf.ones([3, 2]) @ weights))
        with uncompiled():
            inside = tf.negative(loss)
    [gradient] = tf.gradients(loss, [weights])
    outside = tf.negative(gradient)
    assert gradient.op.type == "MatMul"
    assert is_marked(gradient.op)
    assert not is_marked(inside.op)
    assert not is_marked(outside.op)


@pytest.mark.slow
def test_clones_train_the_same_weights(new_graph, data, batch_norm_classifier):
    def trained(xla):
        config = DeploymentConfig(2, clone_on_cpu=True, xla=xla)
        optimizer = v1.train.MomentumOptimizer(0.5, 0.9)
        with new_graph() as graph:
            model = deploy(config, batch_norm_classifier, data, optimizer=optimizer)
            assert any(map(is_marked, graph.get_operations())) == xla
            with v1.Session() as session:
                session.run(v1.global_variables_initializer())
                losses = [session.run(model.train_op) for _ in range(3)]
                return losses, session.run(v1.global_variables())

    for expected, got in zip(*map(tf.nest.flatten, (trained(False), trained(True))), strict=True):
        np.testing.assert_allclose(got, expected, rtol=0, atol=2e-6 * max(1.0, abs(expected).max()))
