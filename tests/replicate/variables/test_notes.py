import tensorflow as tf

import kfac
from replicate.protocols import VARIABLE_NOTES
from replicate.variables.notes import variable_notes

v1 = tf.compat.v1


def test_a_later_note_replaces_an_earlier_one(graph):
    assert variable_notes(graph) == {}
    graph.get_collection_ref(VARIABLE_NOTES).extend(
        [lambda: {"a": "1", "b": "2"}, lambda: {"b": "3"}]
    )
    assert variable_notes(graph) == {"a": "1", "b": "3"}
    assert list(v1.train.export_meta_graph(graph=graph).collection_def) == []


def test_kfac_notes_the_block_of_each_variable(graph):
    weights = v1.get_variable("w", [3, 2])
    layers = kfac.graph_layer_collection()
    features = tf.ones([4, 3])
    layers.register_fully_connected(weights, features, tf.matmul(features, weights))
    assert variable_notes(graph) == {"w": "kron 3x3 (x) 2x2"}
