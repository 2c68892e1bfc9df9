"""Layer collections that the towers of a model share, which knows nothing of them."""

import inspect

import tensorflow as tf

import kfac
from kfac.protocols import SHARED

v1 = tf.compat.v1


def test_a_later_tower_gets_the_collection_of_the_first_with_its_layers(graph):
    made = []

    def once(make):
        if not made:
            made.append(make())
        return made[0]

    own = kfac.LayerCollection()
    v1.add_to_collection(SHARED, once)
    first = kfac.LayerCollection(name="first")
    first.register_generic(v1.get_variable("w", [2]), 1)
    layers = first.fisher_blocks
    assert kfac.LayerCollection(name="second") is first is not own
    assert (first.name, first.fisher_blocks, len(layers)) == ("first", layers, 1)
    # With a graph of its own it is nobody else's.
    assert kfac.LayerCollection(tf.Graph()) is not first


def test_the_class_has_the_arguments_of_its_constructor():
    assert list(inspect.signature(kfac.LayerCollection).parameters) == ["graph", "name", "config"]
