"""Convolutions and normalizations that the scanner finds."""

import pytest
import tensorflow as tf

v1 = tf.compat.v1


def convolutions(model):
    """In one to three dimensions, with strides and dilations, as TensorFlow makes them."""
    x = model.data("x", 8, 7, 7, 3)
    w, b = model.weight("plain/w", 3, 2, 3, 2), model.weight("plain/b", 2)
    plain = tf.nn.bias_add(tf.nn.conv2d(x, w, (2, 1), "SAME"), b)
    model.register("conv2d", (w, b), (1, 2, 1, 1), "SAME", x, plain)
    w = model.weight("dilated/w", 3, 3, 3, 2)
    dilated = tf.nn.conv2d(x, w, 1, "VALID", dilations=2)
    model.register("conv2d", w, (1, 1, 1, 1), "VALID", x, dilated, dilations=(1, 2, 2, 1))
    w, b = model.weight("same/w", 3, 2, 3, 2), model.weight("same/b", 2)
    same = tf.nn.convolution(x, w, padding="SAME", dilations=[2, 3]) + b
    model.register("conv2d", (w, b), (1, 1, 1, 1), "SAME", x, same, dilations=(1, 2, 3, 1))
    w, b, line = model.weight("line/w", 3, 3, 2), model.weight("line/b", 2), x[:, 0]
    one = b + tf.nn.conv1d(line, w, 2, "SAME")
    model.register("conv1d", (w, b), (1, 2, 1), "SAME", line, one)
    w = model.weight("line2/w", 3, 3, 2)
    one_dilated = tf.nn.convolution(line, w, padding="VALID", dilations=[2])
    model.register("convolution", w, line, one_dilated, "VALID", dilation_rate=(2,))
    w, cube = model.weight("cube/w", 2, 2, 2, 3, 2), x[:, :, :, None]
    three = tf.nn.conv3d(cube, w, (1, 1, 2, 1, 1), "SAME")
    model.register("convolution", w, cube, three, "SAME", (1, 2, 1))
    return plain, dilated, same, one, one_dilated, three


def depthwise_convolutions(model):
    x = model.data("x", 8, 6, 6, 3)
    w = model.weight("depthwise/w", 3, 3, 3, 2)
    dilated = tf.nn.depthwise_conv2d(x, w, (1, 1, 1, 1), "SAME", dilations=(2, 2))
    model.register("depthwise_conv2d", w, x, dilated, (1, 1, 1, 1), "SAME", (2, 2))
    deep = model.weight("separable/depthwise", 2, 2, 3, 2)
    point, b = model.weight("separable/pointwise", 1, 1, 6, 4), model.weight("separable/b", 4)
    separable = tf.nn.separable_conv2d(x, deep, point, (1, 2, 2, 1), "VALID") + b
    between = separable.op.inputs[0].op.inputs[0]
    model.register(
        "separable_conv2d", deep, (point, b), x, between, separable, (1, 2, 2, 1), "VALID"
    )
    return dilated, separable


def shared_convolution(model):
    w, b, x = model.weight("w", 3, 3, 2, 2), model.weight("b", 2), model.data("x", 8, 4, 4, 2)
    inputs, outputs = [], []
    for _ in range(3):
        inputs.append(x)
        outputs.append(tf.nn.conv2d(x, w, 1, "SAME") + b)
        x = tf.tanh(outputs[-1])
    model.register("conv2d_multi", (w, b), (1, 1, 1, 1), "SAME", inputs, outputs)
    return [x]


def test_channels_first(scan):
    """Not run, because a CPU may not have the op; the registration shows what was understood."""
    x = v1.placeholder(tf.float32, [None, 3, 8, 8])
    w, b = v1.get_variable("a/w", [3, 3, 3, 4]), v1.get_variable("a/b", [4])
    plain = tf.nn.conv2d(x, w, (1, 2), "SAME", data_format="NCHW") + b[:, None, None]
    biased = tf.nn.bias_add(
        tf.nn.conv2d(x, v1.get_variable("b/w", [3, 3, 3, 4]), 1, "SAME", data_format="NCHW"),
        v1.get_variable("b/b", [4]),
        data_format="NCHW",
    )
    w = v1.get_variable("c/w", [3, 3, 4])
    line = tf.nn.conv1d(x[:, :, 0], w, 2, "VALID", data_format="NCW")
    w = v1.get_variable("d/w", [3, 3, 3, 4])
    dilated = tf.nn.convolution(x, w, padding="SAME", dilations=[1, 2], data_format="NCHW")
    blocks = scan(plain, biased, line, dilated).fisher_blocks
    geometries = {block.name: block.settings[0] for block in blocks.values()}
    assert all(geometry.channels_first for geometry in geometries.values())
    assert geometries["a/w"].strides == (1, 2)
    assert geometries["b/w"].padding == "SAME"
    assert geometries["c/w"].strides == (2,)
    assert geometries["d/w"].dilations == (1, 2)
    assert [len(tf.nest.flatten(key)) for key in blocks] == [2, 2, 1, 1]


@pytest.mark.parametrize(
    ("convolve", "shape", "reason"),
    [
        (lambda x, w: tf.nn.conv2d(x, w, 1, "SAME"), [3, 3, 2, 4], "with groups of channels"),
        (lambda x, w: tf.nn.conv2d(x, w, 1, [[0, 0], [1, 1], [1, 1], [0, 0]]), [3, 3, 4, 4],
         "padding='EXPLICIT'; use tf.pad"),
        (lambda x, w: tf.nn.conv2d_transpose(x, w, [2, 8, 8, 4], 1), [3, 3, 4, 4],
         "Conv2DBackpropInput is no known layer"),
        (lambda x, w: tf.nn.conv2d(w, x, 1, "SAME"), [2, 8, 8, 8],
         "is in 'Conv2D', which convolves parameters"),
        (lambda x, w: tf.nn.conv2d(x, tf.reshape(w, [3, 3, 4, 4]), 1, "SAME"), [9, 16],
         "is reshaped for 'Conv2D'"),
        (lambda x, w: tf.nn.depthwise_conv2d(tf.expand_dims(x[:, 0], 1), tf.expand_dims(w, 0), (1,
         1, 1, 1), "SAME"), [3, 4, 1], "is reshaped for 'depthwise'"),
        (lambda x, w: tf.nn.conv2d(tf.space_to_batch(x, [2, 2], [[0, 0], [0, 0]]), w, 1, "VALID"),
         [3, 3, 4, 4], "convolves parts of an image"),
        (lambda x, w: tf.batch_to_space(tf.nn.conv2d(tf.space_to_batch(x, [2, 2], [[4, 4], [4, 4]]),
         w, 1, "VALID"), [2, 2], [[0, 0], [0, 0]]), [3, 3, 4, 4], "with a padding of its own"),
    ],
)  # fmt: skip
def test_what_is_no_convolution(scan, reason_of, convolve, shape, reason):
    collection = scan(convolve(tf.ones([2, 8, 8, 4]), v1.get_variable("w", shape)))
    assert reason in reason_of(collection, "w")


def test_images_of_unknown_shape(scan, reason_of):
    names = ("w", "deep", "dilated")
    w, deep, dilated = (v1.get_variable(name, [3, 3, 3, 2]) for name in names)
    some = v1.placeholder(tf.float32, [None, 8, 8, None])
    sizes = v1.placeholder(tf.float32, [None, None, None, 3])
    collection = scan(
        tf.nn.conv2d(v1.placeholder(tf.float32, None), w, 1, "SAME"),
        tf.nn.depthwise_conv2d(some, deep, (1, 1, 1, 1), "SAME"),
        tf.nn.convolution(sizes, dilated, padding="SAME", dilations=[2, 2]),
    )
    for name in ("w", "deep"):
        assert "on an unknown number of channels" in reason_of(collection, name)
    assert "in images of unknown size; use tf.nn.conv2d" in reason_of(collection, "dilated")


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


@pytest.mark.parametrize(
    "build", [convolutions, depthwise_convolutions, shared_convolution, scales, layer_norms]
)
def test_layers_are_those_registered_by_hand(assert_same_as_by_hand, build):
    assert_same_as_by_hand(build)


@pytest.mark.parametrize(
    ("scale", "reason"),
    [
        (lambda x, w: tf.ones([4, 1]) * w[::-1], "StridedSlice is no known layer"),
        (lambda x, w: x * tf.reshape(w, [4, 1]), "but does not scale each example"),
        (lambda x, w: x[:1, :1] * w, "but does not scale each example"),
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
