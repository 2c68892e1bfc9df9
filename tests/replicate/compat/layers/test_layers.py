"""Layers of TensorFlow 1: numbers by NumPy, errors, reuse by objects, and no Keras."""

import copy
import importlib.util
import inspect

import numpy as np
import pytest
import tensorflow as tf

from replicate.compat import cells, layers

v1 = tf.compat.v1
graph = pytest.mark.usefixtures("graph")
ROWS = np.random.default_rng(0).normal(size=[6, 3]).astype("f4")
IMAGES = np.random.default_rng(1).normal(size=[4, 5, 5, 2]).astype("f4")
SIGNATURES = {
    "dense": "inputs, units, activation=None, use_bias=True, kernel_initializer=None, "
    "bias_initializer=zeros, kernel_regularizer=None, bias_regularizer=None, "
    "activity_regularizer=None, kernel_constraint=None, bias_constraint=None, trainable=True, "
    "name=None, reuse=None",
    "conv2d": "inputs, filters, kernel_size, strides=1, padding='valid', "
    "data_format='channels_last', dilation_rate=1, activation=None, use_bias=True, "
    "kernel_initializer=None, bias_initializer=zeros, kernel_regularizer=None, "
    "bias_regularizer=None, activity_regularizer=None, kernel_constraint=None, "
    "bias_constraint=None, trainable=True, name=None, reuse=None",
    "separable_conv2d": "inputs, filters, kernel_size, strides=1, padding='valid', "
    "data_format='channels_last', dilation_rate=1, depth_multiplier=1, activation=None, "
    "use_bias=True, depthwise_initializer=None, pointwise_initializer=None, "
    "bias_initializer=zeros, depthwise_regularizer=None, pointwise_regularizer=None, "
    "bias_regularizer=None, activity_regularizer=None, depthwise_constraint=None, "
    "pointwise_constraint=None, bias_constraint=None, trainable=True, name=None, reuse=None",
    "conv2d_transpose": "inputs, filters, kernel_size, strides=1, padding='valid', "
    "data_format='channels_last', activation=None, use_bias=True, kernel_initializer=None, "
    "bias_initializer=zeros, kernel_regularizer=None, bias_regularizer=None, "
    "activity_regularizer=None, kernel_constraint=None, bias_constraint=None, trainable=True, "
    "name=None, reuse=None",
    "batch_normalization": "inputs, axis=-1, momentum=0.99, epsilon=0.001, center=True, "
    "scale=True, beta_initializer=zeros, gamma_initializer=ones, moving_mean_initializer=zeros, "
    "moving_variance_initializer=ones, beta_regularizer=None, gamma_regularizer=None, "
    "beta_constraint=None, gamma_constraint=None, training=False, trainable=True, name=None, "
    "reuse=None, renorm=False, renorm_clipping=None, renorm_momentum=0.99, fused=None, "
    "virtual_batch_size=None, adjustment=None",
    "dropout": "inputs, rate=0.5, noise_shape=None, seed=None, training=False, name=None",
    "flatten": "inputs, name=None, data_format='channels_last'",
    "max_pooling2d": "inputs, pool_size, strides, padding='valid', data_format='channels_last', "
    "name=None",
}


def written(parameter):
    if parameter.default is inspect.Parameter.empty:
        return parameter.name
    kind = type(parameter.default).__name__.lower()
    default = kind if kind in ("zeros", "ones") else repr(parameter.default)
    return f"{parameter.name}={default}"


@pytest.mark.parametrize("name", SIGNATURES)
def test_functions_have_the_old_parameters_and_defaults(name):
    parameters = inspect.signature(getattr(layers, name)).parameters.values()
    assert ", ".join(map(written, parameters)) == SIGNATURES[name]


@graph
def test_dense_gradients_and_penalties_agree_with_numpy(evaluate):
    found = layers.dense(
        ROWS,
        2,
        "relu",
        kernel_initializer=v1.constant_initializer([[1.0, -1], [2, 0], [0, 1]]),
        bias_initializer=v1.constant_initializer([0.5, -0.5]),
        kernel_regularizer="l2",
        activity_regularizer=tf.reduce_sum,
    )
    kernel, bias = v1.trainable_variables()
    penalties = v1.losses.get_regularization_losses()
    linear = ROWS @ np.float32([[1, -1], [2, 0], [0, 1]]) + np.float32([0.5, -0.5])
    outputs = np.maximum(linear, 0)
    pairs = [
        (found, outputs),
        (tf.gradients(found**2, kernel)[0], ROWS.T @ (2 * outputs)),
        (tf.gradients(found**2, bias)[0], (2 * outputs).sum(0)),
        (penalties[0], 0.01 * 7),
        (penalties[1], outputs.sum() / 6),
    ]
    for one, other in zip(evaluate([pair[0] for pair in pairs]), pairs, strict=True):
        np.testing.assert_allclose(one, other[1], rtol=1e-5, atol=1e-6)
    assert [each.op.name for each in penalties] == [
        "dense/kernel/Regularizer/mul",
        "dense/ActivityRegularizer/truediv",
    ]


@graph
@pytest.mark.parametrize("inputs", [ROWS, IMAGES], ids=["rows", "images"])
def test_batch_normalization_and_its_updates_agree_with_numpy(inputs):
    axes = tuple(range(inputs.ndim - 1))
    told = v1.placeholder(tf.bool, [])
    outputs = layers.batch_normalization(inputs, momentum=0.9, training=told)
    mean, variance = inputs.mean(axes), inputs.var(axes)
    count = inputs.size // inputs.shape[-1]
    # TensorFlow's fused operation gives the unbiased variance to the moving average.
    moved = variance * (count / (count - 1) if inputs.ndim == 4 else 1)
    with v1.Session() as session:
        session.run(v1.global_variables_initializer())
        in_training, _ = session.run([outputs, v1.get_collection("update_ops")], {told: True})
        later = session.run([outputs, v1.get_collection("update_ops")], {told: False})[0]
        averages = session.run(v1.global_variables()[2:])
    np.testing.assert_allclose(in_training, (inputs - mean) / np.sqrt(variance + 1e-3), atol=1e-5)
    np.testing.assert_allclose(averages, [0.1 * mean, 0.9 + 0.1 * moved], atol=1e-6)
    old = (inputs - averages[0]) / np.sqrt(averages[1] + 1e-3)
    np.testing.assert_allclose(later, old, atol=1e-5)


@graph
def test_dropout_scales_what_it_keeps_only_in_training():
    told = v1.placeholder(tf.bool, [])
    outputs = layers.dropout(tf.ones([50, 40]), 0.25, noise_shape=(None, 1), seed=1, training=told)
    with v1.Session() as session:
        dropped, kept = (session.run(outputs, {told: value}) for value in (True, False))
    assert {0.0, float(np.float32(1 / 0.75))} == {float(each) for each in np.unique(dropped)}
    assert (dropped == dropped[:, :1]).all()
    assert (kept == 1).all()


@graph
def test_layers_of_old_names_and_objects_tell_what_they_did():
    assert layers.BatchNorm is layers.BatchNormalization
    assert layers.Convolution2D is layers.Conv2D
    assert layers.MaxPool2D is layers.MaxPooling2D
    assert layers.Deconvolution2D is layers.Conv2DTranspose
    assert set(layers.__all__) <= set(dir(layers))
    layer = layers.Dense(3)
    unused = copy.deepcopy(layer)
    outputs = layer(ROWS)
    assert layer.output is outputs
    assert (layer.input_shape, layer.output_shape) == ((6, 3), (6, 3))
    assert (layer.name, layer.scope_name, layer.count_params()) == ("dense_1", "dense", 12)
    assert layer.graph is v1.get_default_graph()
    shared = copy.deepcopy(layer)
    assert shared.kernel is layer.kernel
    assert not unused.built
    unused(ROWS)
    assert [each.op.name for each in unused.weights] == ["dense_1/kernel", "dense_1/bias"]
    layer(ROWS[:2])
    with pytest.raises(AttributeError, match="different shapes"):
        _ = layer.input_shape
    with pytest.raises(AttributeError, match="called 2 times"):
        _ = layer.output
    layer.trainable = False
    assert layer.trainable_weights == []
    built = layers.Dense(2, name="early")
    built.build([None, 3])
    assert built.kernel.op.name == "early/kernel"
    assert tf.train.Checkpoint(layer=layer).layer is layer


class Scaled(layers.Layer):
    """A layer of a program, with a config in the manner of Keras."""

    def __init__(self, factor, *rest, **kwargs):
        super().__init__(**kwargs)
        self.factor = factor

    def get_config(self):
        return {**super().get_config(), "factor": self.factor}


@graph
def test_layers_and_cells_tell_their_arguments_and_weights():
    dense = layers.Dense(2, "relu", name="first", _reuse=v1.AUTO_REUSE)
    dense(ROWS)
    config = dense.get_config()
    assert (config["units"], config["activation"], config["use_bias"]) == (2, "relu", True)
    assert (config["name"], config["dtype"]) == ("first", "float32")
    assert not any(name.startswith("_") for name in config)
    again = layers.Dense.from_config({**config, "name": "second"})
    again(ROWS)
    scaled = Scaled.from_config(Scaled(3, 4, trainable=False).get_config())
    assert (scaled.factor, scaled.trainable) == (3, False)
    cell = cells.LSTMCell(4, forget_bias=0.5)
    same = type(cell).from_config(cell.get_config())
    assert same.get_config() == {**cell.get_config(), "name": cell.name}
    assert same.state_size == cell.state_size
    with v1.Session() as session:
        session.run(v1.global_variables_initializer())
        kernel, bias = again.get_weights()
        dense.set_weights([2 * kernel, bias + 1])
        np.testing.assert_array_equal(session.run(dense.kernel), 2 * kernel)
        np.testing.assert_array_equal(session.run(dense.bias), [1, 1])
        with pytest.raises(ValueError, match=r"shapes \[\(2,\)\]: the variables have .*\(3, 2\)"):
            dense.set_weights([bias])


def test_eager_execution_is_refused_by_one_sentence():
    with pytest.raises(ValueError, match=r"need a graph: call tf\.compat\.v1\.disable_v2_behavior"):
        layers.dense(tf.constant(ROWS), 2)


def images(*shape):
    return v1.placeholder(tf.float32, shape)


def wrongly(name, *args, **kwargs):
    """Calls a function of layers on images whose height and width are not known."""
    return lambda: getattr(layers, name)(images(2, None, None, 3), *args, **kwargs)


def is_none(layer):
    class Empty(layers.Layer):
        def call(self, inputs):
            del inputs

    return Empty()(layer)


WRONG = [
    (wrongly("dense"), TypeError, "tf.layers.dense: missing a required argument: 'units'"),
    (lambda: layers.Dense(2, units_=3), TypeError, "Dense takes no argument 'units_'"),
    (lambda: layers.dense(images(2, None), 2), ValueError, "last dimension of the inputs"),
    (lambda: layers.dense(images(2), 2), ValueError, "expected min_ndim=2, found ndim=1"),
    (lambda: layers.dense(np.ones([2, 2], int), 2), TypeError, "got int64 inputs"),
    (wrongly("dense", 2, "nothing"), ValueError, "no activation 'nothing'. Known names: elu"),
    (wrongly("dense", 2, activation=3), TypeError, "neither a name nor a function"),
    (wrongly("conv1d", 2, 2), ValueError, "expected ndim=3, found ndim=4"),
    (wrongly("conv2d", 2, (2, 2, 2)), ValueError, "an integer or a tuple of 2 integers"),
    (wrongly("conv2d", 2, 2, padding="causal"), ValueError, "one of valid, same, got 'causal'"),
    (wrongly("conv2d", 2, 2, data_format="NHWC"), ValueError, "'channels_last', got 'NHWC'"),
    (wrongly("conv2d", 2, 2, 2, dilation_rate=2), ValueError, "only one of them may be above 1"),
    (wrongly("conv2d", 2, 2, data_format="channels_first"), ValueError, "axis 1, must be known"),
    (wrongly("batch_normalization", axis=1), ValueError, "size of axis 1"),
    (wrongly("batch_normalization", axis=4), ValueError, r"got axis=\[4\]"),
    (
        lambda: layers.batch_normalization(images(2, 3), fused=True),
        ValueError,
        "got fused=True, which needs inputs of rank 4",
    ),
    (wrongly("batch_normalization", renorm=True, fused=True), ValueError, "got fused=True"),
    (
        wrongly("batch_normalization", renorm=True, renorm_clipping={"max": 1}),
        ValueError,
        "takes rmin, rmax and dmax",
    ),
    (wrongly("dropout", 1.5), ValueError, "got rate=1.5"),
    (lambda: layers.Dense(2).scope_name, ValueError, "no scope_name before"),
    (lambda: layers.Dense(2).count_params(), ValueError, "before the layer was built"),
    (lambda: layers.Dense(2).input_shape, AttributeError, "was never called"),
    (lambda: layers.Dense(2).get_weights(), ValueError, "get_weights of .* needs a session"),
    (lambda: is_none(ROWS), ValueError, "call returned None"),
]


@graph
@pytest.mark.parametrize(("call", "error", "message"), WRONG, ids=[each[2] for each in WRONG])
def test_errors_tell_what_was_wrong(call, error, message):
    with pytest.raises(error, match=message):
        call()


@graph
def test_second_call_needs_the_same_channels_and_specs_count_inputs():
    layer = layers.Conv2D(2, 2)
    layer(images(2, 4, 4, 3))
    with pytest.raises(ValueError, match="expected axis -1 of size 3, found size 2"):
        layer(images(2, 4, 4, 2))
    layer = layers.Layer()
    layer.input_spec = [layers.InputSpec(dtype="float32", shape=(None, 3)), None]
    layer([images(2, 3), images(2)])
    with pytest.raises(ValueError, match="takes 2 inputs and got 1"):
        layer(images(2, 3))
    with pytest.raises(ValueError, match="expected dtype=float32, found dtype=int32"):
        layer([v1.placeholder(tf.int32, [2, 3]), images(2)])


PROGRAM = """
import sys
for name in ("keras", "tf_keras"):
    for each in [each for each in sys.modules if each.partition(".")[0] == name]:
        del sys.modules[each]
    sys.modules[name] = None
import numpy as np
import tensorflow as tf
import tensorflow.layers as old
from tensorflow.python.layers import base, core as layers_core

class Scale(base.Layer):
    def build(self, shape):
        ones = tf.ones_initializer()
        self.scale = self.add_variable("scale", [shape[-1].value], initializer=ones)
        self.built = True
    def call(self, inputs):
        return inputs * self.scale

def model_fn(features, labels, mode):
    training = mode == tf.estimator.ModeKeys.TRAIN
    net = tf.layers.conv2d(features["x"], 4, 3, activation=tf.nn.relu, name="conv")
    net = old.batch_normalization(net, training=training, momentum=0.5)
    net = Scale()(tf.layers.flatten(tf.layers.max_pooling2d(net, 2, 2)))
    loss = tf.losses.mean_squared_error(labels, layers_core.Dense(1)(net))
    with tf.control_dependencies(tf.get_collection(tf.GraphKeys.UPDATE_OPS)):
        train_op = tf.train.AdamOptimizer(0.1).minimize(loss, tf.train.get_global_step())
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)

x = np.random.RandomState(0).randn(8, 6, 6, 1).astype("f4")
inputs = tf.estimator.inputs.numpy_input_fn(
    {"x": x}, x.sum((1, 2)), 8, num_epochs=None, shuffle=False)
trained = tf.estimator.Estimator(model_fn, config=tf.estimator.RunConfig(tf_random_seed=1))
trained.train(inputs, steps=3)
names = [n for n in trained.get_variable_names() if "Adam" not in n and "power" not in n]
print(sorted(names), trained.get_variable_value("batch_normalization/moving_mean").any(),
      trained.evaluate(inputs, steps=1)["loss"])
"""
NAMES = (
    "['batch_normalization/beta', 'batch_normalization/gamma', 'batch_normalization/moving_mean', "
    "'batch_normalization/moving_variance', 'conv/bias', 'conv/kernel', 'dense/bias', "
    "'dense/kernel', 'global_step', 'scale/scale'] True "
)


def test_programs_need_no_keras_on_towers_and_when_rewritten(run_tensorflow1, run_python, tmp_path):
    (tmp_path / "program.py").write_text(PROGRAM)
    one = run_tensorflow1(tmp_path, "program.py").out
    two = run_tensorflow1(tmp_path, "--num_towers=2", "program.py").out
    assert one.startswith(NAMES)
    assert two.startswith(NAMES)
    if importlib.util.find_spec("libcst") is None:
        return
    importlib.import_module("replicate.migrate.__main__").main(["--write", str(tmp_path)])
    text = (tmp_path / "program.py").read_text()
    assert "tf.layers" not in text
    assert "KERAS" not in text
    done = run_python(text, folder=tmp_path)
    assert done.code == 0, done.err
    assert done.out == one
