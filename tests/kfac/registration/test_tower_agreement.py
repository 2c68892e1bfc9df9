import pytest
import tensorflow as tf

import kfac
from kfac.registration.tower_agreement import (
    check_batches,
    check_collection,
    check_losses,
    collections_of_graph,
)

v1 = tf.compat.v1


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


@pytest.mark.parametrize("heads", [("loss",), ("loss", "other")])
def test_losses_of_all_towers_agree(graph, heads):
    layers = kfac.LayerCollection()
    losses = register(layers, 3, heads)
    for given in (losses, [tf.add_n(losses)], [*losses, tf.constant(1.0)]):
        check_losses(layers, given)
        check_collection(layers, given)


def test_a_loss_that_reaches_no_registered_one_is_not_judged(graph):
    """Regularization, or a loss computed beside the registered outputs."""
    layers, other = kfac.LayerCollection(), kfac.LayerCollection()
    register(layers, 2)
    register(other, 2)
    check_losses(layers, [tf.constant(1.0)])
    check_collection(layers, [tf.constant(1.0)])


@pytest.mark.parametrize(("given", "missing"), [([0], "1, 2"), ([2], "0, 1"), ([0, 2], "1")])
def test_towers_without_loss_are_named(graph, given, missing):
    layers = kfac.LayerCollection(name="ours")
    losses = register(layers, 3)
    message = rf"of tower {missing}, of 3 that are registered in ours\. .*TowerOptimizer.*set_loss"
    with pytest.raises(ValueError, match=message):
        check_losses(layers, [losses[tower] for tower in given])


def test_loss_of_another_collection_is_named(graph):
    ours, theirs = kfac.LayerCollection(name="ours"), kfac.LayerCollection(name="theirs")
    losses = [*register(ours, 1), *register(theirs, 2)]
    check_collection(theirs, losses[1:])
    message = r"'loss_of_tower_0_1' with layer collection ours: .*theirs.*graph_layer_collection"
    with pytest.raises(ValueError, match=message):
        check_collection(ours, losses[:2])


def test_a_loss_that_both_collections_have_agrees(graph):
    ours, theirs = kfac.LayerCollection(), kfac.LayerCollection()
    losses = [*register(ours, 1), *register(theirs, 1)]
    check_collection(ours, [tf.add_n(losses)])


@pytest.mark.parametrize("batches", [1, 3])
def test_each_tower_adds_one_batch(graph, batches):
    layers = kfac.LayerCollection(name="ours")
    check_batches(layers, batches)
    register(layers, 2)
    check_batches(layers, 2)
    with pytest.raises(ValueError, match=rf"called {batches} times, with 2 towers .* in ours"):
        check_batches(layers, batches)


def test_a_graph_knows_its_collections():
    with tf.Graph().as_default() as graph:
        first, second = kfac.LayerCollection(), kfac.graph_layer_collection()
        with tf.Graph().as_default():
            kfac.LayerCollection()
            third = kfac.LayerCollection(graph)
    assert collections_of_graph(graph) == [first, second, third]
    assert graph.get_all_collection_keys() == [], "none that a MetaGraph would hold"
