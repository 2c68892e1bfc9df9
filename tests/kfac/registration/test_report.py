import tensorflow as tf

import kfac
from kfac.registration.report import Decision, curvature_report, decision_lines

v1 = tf.compat.v1


def collection_of_two_layers():
    collection = kfac.LayerCollection()
    params = v1.get_variable("fc/w", [300, 2]), v1.get_variable("fc/b", [2])
    collection.register_fully_connected(params, tf.ones([4, 300]), tf.ones([4, 2]))
    collection.register_generic(v1.get_variable("gain", [3]), 4)
    return collection


def test_before_factors(graph):
    assert collection_of_two_layers().report().split("\n") == [
        "fc/w, fc/b: FullyConnectedKFACBasicFB, kron 301x301 (x) 2x2, 1 tower(s)",
        "gain: NaiveDiagonalFB, diagonal 3, 1 tower(s)",
    ]


def test_with_variables(graph):
    collection = collection_of_two_layers()
    dense, generic = collection.get_blocks()
    dense.instantiate_factors([[tf.ones([4, 2])]], 0.1)
    generic.instantiate_factors([[tf.ones([3])]], 0.1)
    dense.register_inverse()
    dense.input_factor.instantiate_cov_variables("/device:CPU:1")
    dense.input_factor.instantiate_inv_variables("/device:CPU:2")
    assert curvature_report(collection.get_blocks()).split("\n") == [
        "fc/w, fc/b: FullyConnectedKFACBasicFB, kron 301x301 (x) 2x2, 1 tower(s)",
        "  fc/w/input: FullyConnectedKroneckerFactor, float32 301x301, "
        "average 362 KB on /device:CPU:1, inverses 362 KB on /device:CPU:2",
        "  fc/w/output: FullyConnectedKroneckerFactor, float32 2x2",
        "gain: NaiveDiagonalFB, diagonal 3, 1 tower(s)",
        "  gain: NaiveDiagonalFactor, float32 3",
    ]


def test_decisions_of_the_scanner(graph):
    collection = collection_of_two_layers()
    decisions = [Decision(params, "dense layer") for params in collection.fisher_blocks]
    lines = curvature_report(collection.get_blocks(), decision_lines(decisions)).split("\n")
    assert lines[2:] == [
        "found in the graph:",
        "  fc/w, fc/b: dense layer",
        "  gain: dense layer",
    ]
