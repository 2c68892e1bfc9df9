import tensorflow as tf

import kfac
from kfac.registration.report import curvature_report

v1 = tf.compat.v1


def test_report_before_and_with_variables(graph):
    collection = kfac.LayerCollection()
    params = v1.get_variable("fc/w", [300, 2]), v1.get_variable("fc/b", [2])
    collection.register_fully_connected(params, tf.ones([4, 300]), tf.ones([4, 2]))
    collection.register_generic(v1.get_variable("gain", [3]), 4)
    assert collection.report().split("\n") == [
        "fc/w, fc/b: FullyConnectedKFACBasicFB, kron 301x301 (x) 2x2, 1 tower(s)",
        "gain: NaiveDiagonalFB, diagonal 3, 1 tower(s)",
    ]
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
