"""Blocks that are no approximation equal the exact Fisher matrix of the network.

With exact statistics a Kronecker product is exact for one example, and a factor that is made from
each example's own gradient is for any number of them. The Fisher matrix comes from products with
unit vectors, which share no code with blocks, factors and backward passes.
"""

import numpy as np
import pytest
import tensorflow as tf

import kfac
from kfac.estimator import FisherEstimator

v1 = tf.compat.v1

EXAMPLES = 3
IMAGES, VECTORS = (3, 3, 3, 2), (3, 4)
SMALL = (3, 2, 1, 2)
"""Images with few outputs: exact statistics take a backward pass for each of them."""


def weight(name, *shape):
    value = np.random.default_rng(len(name)).normal(size=shape)
    return v1.get_variable(name, dtype=tf.float64, initializer=tf.constant(value))


def dense(layers, x, approx=None):
    w, b = weight("w", 4, 2), weight("bias", 2)
    y = tf.matmul(x, w) + b
    layers.register_fully_connected((w, b), x, y, approx=approx)
    return y


def embedding(layers, x):
    table = weight("table", 5, 2)
    ids = tf.cast(tf.round(x[:, 0]), tf.int64) % 5
    y = tf.gather(tf.identity(table), ids)
    layers.register_fully_connected(table, ids, y, dense_inputs=False)
    return y


def generic(layers, x, approx):
    w = weight("w", 4, 2)
    layers.register_generic(w, tf.shape(x)[0], approx=approx)
    return tf.matmul(x, w)


def scale_and_shift(layers, x, approx):
    scale, shift = weight("scale", 2), weight("shift", 2)
    y = x * scale + shift
    layers.register_scale_and_shift((scale, shift), x, y, approx=approx)
    return y


def convolution(layers, x, approx, padding="SAME", stride=1):
    w, b = weight("w", 2, 2, 2, 2), weight("bias", 2)
    y = tf.nn.conv2d(x, w, stride, padding) + b
    layers.register_conv2d((w, b), (1, stride, stride, 1), padding, x, y, approx=approx)
    return y


def depthwise(layers, x):
    w = weight("w", 2, 2, 2, 2)
    y = tf.nn.depthwise_conv2d(x, w, (1, 2, 2, 1), "VALID")
    layers.register_depthwise_conv2d(w, x, y, (1, 2, 2, 1), "VALID")
    return y


# For each layer: the shape of its inputs for `EXAMPLES` examples, arguments, and whether the block
# is exact for one example only.
LAYERS = {
    "dense": (dense, VECTORS, {}, True),
    "embedding": (embedding, VECTORS, {}, True),
    "generic full": (generic, VECTORS, {"approx": "full"}, True),
    "convolution": (convolution, IMAGES, {"approx": "kron", "stride": 2, "padding": "VALID"}, True),
    "strided": (convolution, IMAGES, {"approx": "diagonal", "stride": 2}, False),
    "depthwise": (depthwise, IMAGES, {}, False),
}
REPEATED = {
    "dense diagonal": (dense, VECTORS, {"approx": "diagonal"}, False),
    "scale and shift": (scale_and_shift, SMALL, {"approx": "full"}, False),
    "generic diagonal": (generic, VECTORS, {"approx": "diagonal"}, True),
    "scale and shift diagonal": (scale_and_shift, SMALL, {"approx": "diagonal"}, False),
    "convolution diagonal": (convolution, (3, 2, 2, 2), {"approx": "diagonal"}, False),
}


def build(make_layer, shape, kwargs):
    """Registers a layer, a non-linearity and two losses, the first example on a tower by itself."""
    layers = kfac.graph_layer_collection()
    inputs = 2 * np.random.default_rng(0).normal(size=shape)
    for tower, share in enumerate(np.split(inputs, [1])):
        with v1.device(f"/cpu:{tower}"), v1.variable_scope("", reuse=tower > 0):
            y = tf.tanh(make_layer(layers, tf.constant(share), **kwargs))
            flat = tf.reshape(y, [len(share), int(np.prod(y.shape[1:]))])
            layers.register_categorical_predictive_distribution(
                flat, name="classes", coeff=2.0, reuse=tower > 0
            )
            layers.register_normal_mean_variance_predictive_distribution(
                flat[:, :1], tf.exp(flat[:, 1:2]), name="normal", reuse=tower > 0
            )
    return layers


def fisher_matrix(session, layers):
    """The exact Fisher matrix, a sum over examples, from products with unit vectors."""
    variables = layers.registered_variables
    shapes = [tuple(v.shape.as_list()) for v in variables]
    sizes = [int(np.prod(shape)) for shape in shapes]
    vector = v1.placeholder(tf.float64, [sum(sizes)])
    parts = [tf.reshape(p, s) for p, s in zip(tf.split(vector, sizes), shapes, strict=True)]
    products = kfac.CurvatureMatrixVectorProductComputer(layers, variables).multiply_fisher(parts)
    flat = tf.concat([tf.reshape(product, [-1]) for product in products], axis=0)
    session.run(v1.global_variables_initializer())
    return np.stack([session.run(flat, {vector: e}) for e in np.eye(sum(sizes))])


@pytest.mark.parametrize(
    "layer", [*LAYERS, *(pytest.param(name, marks=pytest.mark.broad) for name in REPEATED)]
)
def test_block_is_the_fisher_matrix(graph, layer):
    make_layer, shape, kwargs, one_example_only = (LAYERS | REPEATED)[layer]
    # Of one example nothing is left for the second tower, which must count for nothing then.
    examples = 1 if one_example_only else EXAMPLES
    layers = build(make_layer, (examples, *shape[1:]), kwargs)
    with v1.Session() as session:
        expected = fisher_matrix(session, layers) / examples
        estimator = FisherEstimator(None, 0.9, 0.1, layers, estimation_mode="exact")
        update = estimator.make_cov_update_op()
        session.run(v1.global_variables_initializer())
        session.run(update)
        found = session.run(estimator.blocks[0].full_fisher_block())
    if not found[~np.eye(len(found), dtype=bool)].any():
        expected = np.diag(np.diag(expected))
    assert np.abs(expected).max() > 1e-3
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-14 * np.abs(expected).max())
