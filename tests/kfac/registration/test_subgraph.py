"""Parts of a graph that losses depend on, and towers that do not agree."""

import pytest
import tensorflow as tf

import kfac
from kfac.registration.checks import (
    check_batches,
    check_collection,
    check_losses,
    collections_of_graph,
)
from kfac.registration.subgraph import SubGraph

v1 = tf.compat.v1


def test_members_are_what_the_outputs_depend_on(graph):
    a, b = tf.constant([1.0]), tf.constant([2.0])
    c, d = a + b, a * b
    subgraph = SubGraph([c])
    assert [subgraph.is_member(node) for node in (a, b, c, c.op, d)] == [True] * 4 + [False]
    assert subgraph.filter_list([d, b, a]) == [b, a]
    x, y = v1.get_variable("x", [2]), v1.get_variable("y", [2])
    assert SubGraph([x * 2.0]).filter_list([x, y]) == [x]


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


def test_products_with_itself_and_lookups(graph):
    variable = v1.get_variable("x", [4, 4])
    value = tf.identity(variable)
    assert SubGraph([tf.matmul(value, value)]).variable_uses(variable) == 2
    looked_up = tf.nn.embedding_lookup(variable, [0, 1])
    assert SubGraph([tf.tanh(looked_up), tf.exp(looked_up)]).variable_uses(variable) == 1


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


def test_a_graph_knows_its_collections():
    with tf.Graph().as_default() as graph:
        first, second = kfac.LayerCollection(), kfac.graph_layer_collection()
        with tf.Graph().as_default():
            kfac.LayerCollection()
            third = kfac.LayerCollection(graph)
    assert collections_of_graph(graph) == [first, second, third]
    assert graph.get_all_collection_keys() == [], "none that a MetaGraph would hold"


def register(layers, towers, heads=("loss",)):
    """Registers losses; returns for each tower a loss that depends on the first head."""
    losses = []
    for tower in range(towers):
        for head in reversed(heads):
            logits = tf.zeros([4, 3])
            layers.register_categorical_predictive_distribution(
                logits, name=head, reuse=v1.AUTO_REUSE
            )
        losses.append(tf.reduce_sum(logits, name=f"loss_of_tower_{tower}"))
    return losses


def test_losses_of_all_towers_agree(graph):
    layers = kfac.LayerCollection(name="ours")
    losses = register(layers, 3, ("loss", "other"))
    elsewhere = tf.constant(1.0)  # Such as a regularization.
    for given in (losses, [tf.add_n(losses)], [*losses, elsewhere], [elsewhere]):
        check_losses(layers, given)
        check_collection(layers, given)
    registered = r"of 3 that are registered in ours\. .*TowerOptimizer.*set_loss"
    for towers, missing in (([0], "1, 2"), ([2], "0, 1"), ([0, 2], "1")):
        with pytest.raises(ValueError, match=rf"of tower {missing}, {registered}"):
            check_losses(layers, [losses[tower] for tower in towers])
    check_batches(layers, 3)
    for batches in (1, 4):
        with pytest.raises(ValueError, match=rf"called {batches} times, with 3 towers .* in ours"):
            check_batches(layers, batches)


def test_loss_of_another_collection_is_named(graph):
    ours, theirs = kfac.LayerCollection(name="ours"), kfac.LayerCollection(name="theirs")
    check_batches(ours, 1)
    losses = [*register(ours, 1), *register(theirs, 2)]
    check_collection(theirs, losses[1:])
    check_collection(ours, [tf.add_n(losses)])
    check_collection(ours, [tf.constant(1.0)])
    message = r"'loss_of_tower_0_1' with layer collection ours: .*theirs.*graph_layer_collection"
    with pytest.raises(ValueError, match=message):
        check_collection(ours, losses[:2])
