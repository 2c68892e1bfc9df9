"""tf.contrib.graph_editor: walks, copies and rerouted tensors, as for gradient checkpoints."""

import numpy as np
import pytest
import tensorflow as tf

from replicate.compat.old_modules import old_module

v1 = tf.compat.v1
ge = old_module("tf.contrib", "replicate.v1").graph_editor
START = np.float32([0.3, -0.2])


def chain(resource=True):
    """Four layers: w and x, then a = tanh(w·x), b = tanh(w·a), c = tanh(w·b), loss."""
    w = v1.get_variable("w", initializer=np.float32([0.5, 2.0]), use_resource=resource)
    layers = [tf.constant(START, name="x")]
    for name in "abc":
        product = tf.multiply(w, layers[-1], name=f"{name}_product")
        layers.append(tf.tanh(product, name=name))
    return w, layers, tf.reduce_sum(layers[-1], name="loss")


def names(ops):
    return {op.name for op in ops}


def test_walks_follow_edges_within_bounds(graph):
    _, (x, a, b, c), loss = chain()
    back = ge.get_backward_walk_ops(c.op, stop_at_ts=[a])
    assert {"b", "b_product", "c", "c_product"} <= names(back)
    assert not {"a", "x"} & names(back)
    assert names(ge.get_forward_walk_ops([b.op])) == {"b", "c_product", "c", "loss"}
    assert names(ge.get_forward_walk_ops([b], inclusive=False)) == {"c", "loss"}
    assert names(ge.get_forward_walk_ops(x.op, within_ops=ge.get_backward_walk_ops(a))) == {
        "x", "a_product", "a",
    }  # fmt: skip
    found = ge.filter_ts_from_regex([a.op, b.op], "product")
    assert [each.op.name for each in found] == ["a_product", "b_product"]
    assert ge.filter_ops_from_regex(graph, "^loss") == [loss.op]
    assert len(ge.filter_ts(b.op, True)) == 2
    with pytest.raises(TypeError, match="Expected a Operation or a list of them, got 3"):
        ge.get_backward_walk_ops(3)


@pytest.mark.parametrize("resource", [True, False])
def test_checkpointed_gradients_are_those_of_the_whole_graph(graph, evaluate, resource):
    w, (_, a, b, c), loss = chain(resource)
    (expected,) = tf.gradients(loss, w)
    ops = ge.get_backward_walk_ops(c.op, stop_at_ts=[a], within_ops=ge.get_forward_walk_ops(a.op))
    held = tf.stop_gradient(a)
    copied, info = ge.copy_with_input_replacements(ge.sgv(ops), {})
    assert info.transformed(b.op) in copied.ops
    assert info.transformed(b).shape == b.shape
    changed = ge.reroute_ts([held], [a], can_modify=info._transformed_ops.values())
    assert changed == 1
    again = info.transformed(c)
    (of_held, of_w) = tf.gradients(again, [held, w], tf.gradients(loss, c))
    (through_a,) = tf.gradients(a, w, of_held)
    ge.add_control_inputs(held.op, [loss.op])
    with pytest.raises(ValueError, match="runs after"):
        ge.add_control_inputs(held.op, loss.op)
    found = evaluate((of_w + through_a, expected))
    np.testing.assert_allclose(found[0], found[1], rtol=1e-6)
    ge.remove_control_inputs(held.op, [loss.op])
    assert held.op.control_inputs == []
    with pytest.raises(ValueError, match="type and shape must fit"):
        ge.reroute_ts([tf.constant(1)], [a])


def test_graph_is_replaced_between_tensors(graph, evaluate):
    _, (x, a, _, _), loss = chain()
    other = tf.constant([0.1, 0.7])
    replaced, kept = ge.graph_replace([loss, x], {a.ref(): other}, dst_scope="again")
    assert kept is x
    assert replaced.op.name == "again/loss"
    weights = np.float32([0.5, 2.0])
    expected = np.tanh(weights * np.tanh(weights * [0.1, 0.7])).sum()
    np.testing.assert_allclose(evaluate(replaced), expected, rtol=1e-6)
    assert len(ge.copy(ge.get_name_scope_ops(graph, "again"), "b", "again")[0].ops) == 5
    assert evaluate(graph.get_tensor_by_name("b/loss:0")) == evaluate(replaced)


def test_loops_are_refused(graph, old_control_flow):
    last = tf.while_loop(lambda i: i < 3, lambda i: i + 1, [0])
    with pytest.raises(ValueError, match="part of a loop"):
        ge.copy(ge.get_backward_walk_ops(last[0] if isinstance(last, list | tuple) else last))
