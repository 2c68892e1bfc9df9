import numpy as np
import pytest
import tensorflow as tf

from kfac.graph_search.normalization import _renormalized

v1 = tf.compat.v1


def scales(model):
    """By themselves, in a normalization of the batch or of an example, fused or not."""
    x = model.data("x", 8, 4, 4, 3)

    def parameters(name):
        return model.weight(f"{name}/gamma", 3), model.weight(f"{name}/beta", 3)

    gamma, beta = parameters("plain")
    plain = beta + gamma * x
    model.register("scale_and_shift", (gamma, beta), x, plain)
    gamma = model.weight("scale/gamma", 4, 3)
    scale = x * gamma
    model.register("scale_and_shift", gamma, x, scale)
    mean, variance = tf.nn.moments(x, [0, 1, 2])
    gamma, beta = parameters("batch")
    batch = tf.nn.batch_normalization(x, mean, variance, beta, gamma, 1e-3)
    inverse = tf.math.rsqrt(variance + 1e-3)
    model.register("layer_norm", (gamma, beta), (x - mean) * inverse, batch)
    gamma = model.weight("uncentred/gamma", 3)
    uncentred = tf.nn.batch_normalization(x, mean, variance, None, gamma, 1e-3)
    model.register("scale_and_shift", gamma, (x - mean) * inverse, uncentred)
    gamma, beta = parameters("fused")
    fused, *_ = v1.nn.fused_batch_norm(x, gamma, beta)
    ones, zeros = tf.ones_like(gamma), tf.zeros_like(beta)
    normal = v1.nn.fused_batch_norm(x, ones, zeros)[0]
    model.register("scale_and_shift", (gamma, beta), normal, fused)
    gamma, beta = parameters("inference")
    known = {"mean": tf.constant([1.0, 2, 3]), "variance": tf.ones([3]), "is_training": False}
    inference, *_ = v1.nn.fused_batch_norm(x, gamma, beta, **known)
    normal = v1.nn.fused_batch_norm(x, ones, zeros, **known)[0]
    model.register("scale_and_shift", (gamma, beta), normal, inference)
    return plain, scale, batch, uncentred, fused, inference


def test_scale_and_shift(assert_same_as_by_hand):
    assert_same_as_by_hand(scales)


def layer_norms(model):
    """As Keras writes it, with the offset of the mean first."""
    x = model.data("x", 8, 5, 3)
    mean, variance = tf.nn.moments(x, [-1], keepdims=True)
    gamma, beta = model.weight("norm/gamma", 3), model.weight("norm/beta", 3)
    inverse = tf.math.rsqrt(variance + 1e-3)
    m = inverse * tf.reshape(gamma, [1, 1, 3])
    y = x * m + (-mean * m + tf.reshape(beta, [1, 1, 3]))
    model.register("layer_norm", (gamma, beta), (x - mean) * inverse, y)
    return [y]


def test_layer_norm(assert_same_as_by_hand):
    assert_same_as_by_hand(layer_norms)


@pytest.mark.parametrize(
    ("scale", "reason"),
    [
        (lambda x, w: tf.ones([4, 1]) * w[::-1], "StridedSlice is no known layer"),
        (lambda x, w: x * tf.reshape(w, [4, 1]), "but does not scale each example"),
        (lambda x, w: x[:1, :1] * w, "but does not scale each example"),
        (lambda x, w: tf.reshape(x, [4, 2, 2]) * tf.reshape(w, [2, 2]), "not scale each example"),
        (lambda x, w: w * w, "is multiplied with another parameter"),
        (lambda x, w: x / w, "RealDiv is no known layer"),
        (lambda x, w: x @ (tf.tanh(v1.get_variable("v", [4, 4])) * w), "not scale each example"),
    ],
)
def test_what_is_no_scale(scan, reason_of, scale, reason):
    output = scale(v1.placeholder(tf.float32, [None, 4]), v1.get_variable("w", [4]))
    assert reason in reason_of(scan(output, batch_size=4), "w")


def test_shift_without_scale(scan, reason_of):
    x, beta = v1.placeholder(tf.float32, [None, 2, 2, 3]), v1.get_variable("beta", [3])
    fused, *_ = v1.nn.fused_batch_norm(x, tf.ones([3]), beta)
    assert "whose scale is not trained" in reason_of(scan(fused), "beta")


@pytest.mark.parametrize("is_training", [True, False])
def test_normalized_images_do_not_depend_on_the_scale(graph, session, is_training):
    random = np.random.RandomState(0)
    x, mean, variance = random.randn(4, 2, 2, 3), [0.1, 0.2, 0.3], [1.0, 2.0, 3.0]
    moments = {} if is_training else {"mean": tf.constant(mean), "variance": tf.constant(variance)}
    y, *_ = v1.nn.fused_batch_norm(
        tf.constant(x.astype("f")), tf.zeros([3]), tf.ones([3]), is_training=is_training, **moments
    )
    found = session.run(_renormalized(y.op))
    if is_training:
        mean, variance = x.mean((0, 1, 2)), x.var((0, 1, 2))
    expected = (x - mean) / np.sqrt(np.asarray(variance) + 1e-3)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
