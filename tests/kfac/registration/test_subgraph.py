import pytest
import tensorflow as tf

from kfac.registration.subgraph import SubGraph

v1 = tf.compat.v1


def test_members_are_what_the_outputs_depend_on(graph):
    a, b = tf.constant([1.0]), tf.constant([2.0])
    c, d = a + b, a * b
    subgraph = SubGraph([c])
    assert [subgraph.is_member(node) for node in (a, b, c, c.op, d)] == [True] * 4 + [False]
    assert subgraph.filter_list([d, b, a]) == [b, a]


def test_variable_is_a_member(graph):
    x, y = v1.get_variable("x", [2]), v1.get_variable("y", [2])
    subgraph = SubGraph([x * 2.0])
    assert subgraph.filter_list([x, y]) == [x]


def copies(variable):
    """Many ways to the same numbers; each of the last four ops is a use."""
    x = tf.reshape(tf.identity(variable), [1, 6, 2])
    (y,) = tf.identity_n([tf.squeeze(x, [0])])
    return [
        tf.matmul(tf.ones([1, 6]), y),
        tf.cast(tf.expand_dims(variable, 0), tf.float64) * 2.0,
        x[:, None] + 1.0,
        tf.tanh(variable),
    ]


@pytest.mark.parametrize("use_resource", [True, False])
def test_uses_behind_copies(graph, use_resource):
    variable = v1.get_variable("x", [6, 2], use_resource=use_resource)
    outputs = copies(variable)
    unrelated = tf.exp(variable)
    subgraph = SubGraph(outputs)
    uses = subgraph.uses(variable)
    assert {use.op for use in uses} == {output.op for output in outputs}
    assert [use.position for use in uses if use.op.type == "MatMul"] == [1]
    assert subgraph.variable_uses(variable) == 4
    assert SubGraph([*outputs, unrelated]).variable_uses(variable) == 5
    taken = {tensor.ref() for tensor in subgraph.copies(variable)}
    assert {use.value.ref() for use in uses} <= taken
    assert not taken & {output.ref() for output in outputs}


def test_one_op_can_take_a_variable_twice(graph):
    variable = v1.get_variable("x", [2, 2])
    value = tf.identity(variable)
    assert SubGraph([tf.matmul(value, value)]).variable_uses(variable) == 2


def test_lookups_are_uses(graph):
    table = v1.get_variable("table", [4, 2])
    looked_up = tf.nn.embedding_lookup(table, [0, 1])
    outputs = [tf.tanh(looked_up), tf.exp(looked_up)]
    assert SubGraph(outputs).variable_uses(table) == 1


@pytest.mark.parametrize(
    "use",
    [
        lambda x, y: y * tf.stop_gradient(tf.tanh(x)),
        lambda x, y: y + tf.zeros_like(x),
        lambda x, y: tf.gather(y, tf.argmax(x)) + tf.cast(tf.shape(tf.exp(x))[0], tf.float32),
        lambda x, y: tf.where(tf.tanh(x) > 0, y, -y),
        lambda x, y: tf.reshape(y, tf.shape(x)),
        lambda x, y: x[::-1],
    ],
)
def test_uses_without_a_gradient_do_not_count(graph, use):
    x, y = v1.get_variable("x", [3]), tf.ones([3])
    output = use(x, y)
    expected = 1 if output.op.type == "StridedSlice" else 0
    assert SubGraph([output]).variable_uses(x) == expected


def test_loops(behavior, graph):
    """A loop is one use of what goes into it, from outside or, where it can be seen, inside."""
    x, w = tf.ones([2, 2]), v1.get_variable("w", [2, 2])
    _, y = tf.while_loop(lambda i, _: i < 3, lambda i, s: (i + 1, tf.tanh(s @ w)), [0, x])
    subgraph = SubGraph([y])
    (use,) = subgraph.uses(w)
    assert use.in_loop == (use.op.type == "MatMul")
    assert use.op.type in {"MatMul", "StatelessWhile", "While"}
