"""The ConvNet of the K-FAC tutorials as a model_fn that runs on one tower or on many.

    image -> conv 5x5, 16 -> max pool 3x3/2 -> conv 5x5, 16 -> max pool 3x3/2 -> linear 10

The model_fn builds one tower for its share of the batch, for any number of towers. Two lines are
for replication and K-FAC: the optimizer is wrapped in a `replicate.TowerOptimizer`, and each
layer's inputs and outputs are registered in the graph's layer collection, which all towers share.

Flags, files and printing are in `examples/convnet.py`.

Reference: Grosse & Martens (2016), "A Kronecker-factored approximate Fisher matrix for
convolution layers", arXiv 1602.01407.
"""

from typing import Any, NamedTuple

import tensorflow as tf

import kfac
import replicate
from examples import mnist

v1 = tf.compat.v1
Tensor = Any
CHANNELS = 16
INVERT_EVERY = 10
"""Steps between two computations of K-FAC's inverses."""

LOSS_REDUCTION = v1.losses.Reduction.MEAN
"""Reduction by which `model_fn` makes one loss of many; towers' losses are combined by it."""


class Layer(NamedTuple):
    """Tensors of a layer that K-FAC needs: parameters, inputs and outputs."""

    weights: Any
    bias: Any
    inputs: Tensor
    outputs: Tensor  # before the non-linearity


def conv_layer(name: str, inputs: Tensor, size: int, channels: int) -> Layer:
    """Convolves with `size` x `size` filters, stride 1, SAME padding, and adds a bias.

    Inputs and outputs are [batch, height, width, channels].
    """
    shape = [size, size, inputs.shape[-1], channels]
    with v1.variable_scope(name):
        weights = v1.get_variable("weights", shape, initializer=v1.initializers.he_normal())
        bias = v1.get_variable("bias", [channels], initializer=v1.initializers.zeros())
    outputs = tf.nn.bias_add(tf.nn.conv2d(inputs, weights, strides=1, padding="SAME"), bias)
    return Layer(weights, bias, inputs, outputs)


def max_pool_layer(inputs: Tensor, size: int = 3, stride: int = 2) -> Tensor:
    """Takes the largest of each `size` x `size` window, padding SAME.

    Inputs are [batch, height, width, channels]. A stride of 2 makes half the height and the width.
    """
    return tf.nn.max_pool2d(inputs, ksize=size, strides=stride, padding="SAME")


def linear_layer(name: str, inputs: Tensor, units: int) -> Layer:
    """Multiplies by a matrix and adds a bias: [batch, features] -> [batch, units]."""
    with v1.variable_scope(name):
        weights = v1.get_variable(
            "weights", [inputs.shape[-1], units], initializer=v1.initializers.glorot_uniform()
        )
        bias = v1.get_variable("bias", [units], initializer=v1.initializers.zeros())
    return Layer(weights, bias, inputs, tf.matmul(inputs, weights) + bias)


class ConvNet(NamedTuple):
    """The layers that have parameters."""

    conv1: Layer
    conv2: Layer
    linear: Layer

    @property
    def logits(self) -> Tensor:
        """Outputs of the last layer, [batch, classes]."""
        return self.linear.outputs


def build_model(images: Tensor, classes: int = mnist.CLASSES) -> ConvNet:
    """Stacks the layers on images [batch, height, width, 1]."""
    conv1 = conv_layer("conv1", images, size=5, channels=CHANNELS)
    pool1 = max_pool_layer(tf.nn.relu(conv1.outputs))
    conv2 = conv_layer("conv2", pool1, size=5, channels=CHANNELS)
    pool2 = max_pool_layer(tf.nn.relu(conv2.outputs))
    features = pool2.shape[1] * pool2.shape[2] * pool2.shape[3]
    linear = linear_layer("linear", tf.reshape(pool2, [-1, features]), classes)
    return ConvNet(conv1, conv2, linear)


def predict(images: Tensor) -> Tensor:
    """Returns the digits [batch] that the model sees in images."""
    return tf.argmax(build_model(images).logits, axis=1, output_type=tf.int32)


def mean_accuracy(model: ConvNet, labels: Tensor) -> Tensor:
    """Returns the share of the digits [batch] that the model sees in its images, shape []."""
    seen = tf.argmax(model.logits, axis=1, output_type=tf.int32)
    return tf.reduce_mean(tf.cast(tf.equal(seen, tf.cast(labels, tf.int32)), tf.float32))


def mean_loss(model: ConvNet, labels: Tensor) -> Tensor:
    """Returns the mean cross entropy, shape [], of digits [batch]."""
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=model.logits)
    return tf.reduce_mean(losses)


def register(layers: kfac.LayerCollection, model: ConvNet, params: Any) -> None:
    """Registers the layers and the distribution of the logits with K-FAC.

    Args:
      layers: Collection to register in. Towers that share variables share it.
      model: The layers.
      params: May have "approx", the approximation of conv2 (default "kron"), and "auto_register",
        whether K-FAC is to find the layers in the graph by itself. What is registered by hand
        before it looks is left as it is.
    """
    approx, is_automatic = params.get("approx", "kron"), params.get("auto_register", False)
    if not is_automatic:
        _register_conv(layers, model.conv1, "kron")
        linear = model.linear
        layers.register_fully_connected(
            (linear.weights, linear.bias), linear.inputs, linear.outputs
        )
    if approx != "kron" or not is_automatic:
        _register_conv(layers, model.conv2, approx)
    layers.register_categorical_predictive_distribution(model.logits, name="logits")
    if is_automatic:
        layers.auto_register_layers()


def _register_conv(layers: kfac.LayerCollection, conv: Layer, approx: str) -> None:
    layers.register_conv2d(
        (conv.weights, conv.bias), (1, 1, 1, 1), "SAME", conv.inputs, conv.outputs, approx=approx
    )


def model_fn(features: Tensor, labels: Tensor, mode: str, params: Any) -> Any:
    """Builds one tower.

    Args:
      features: This tower's images, [batch, height, width, 1].
      labels: Their digits, [batch], or None in PREDICT mode.
      mode: One of replicate.ModeKeys.
      params: Dict with "optimizer" ("kfac", "momentum" or "adam"), "learning_rate", "momentum"
        and, for kfac, "damping" and what `register` takes; it may have "norm_constraint". With
        "final_learning_rate" or "final_damping" the rate or the damping falls to that within
        "decay_steps" steps.

    Returns:
      A replicate.EstimatorSpec.
    """
    model = build_model(features)
    classes = tf.argmax(model.logits, axis=1, output_type=tf.int32)
    predictions = {"class": classes, "probabilities": tf.nn.softmax(model.logits)}
    if mode == replicate.ModeKeys.PREDICT:
        return replicate.EstimatorSpec(mode, predictions=predictions)

    loss = mean_loss(model, labels)
    if mode == replicate.ModeKeys.EVAL:
        accuracy = v1.metrics.accuracy(labels, classes)
        return replicate.EstimatorSpec(mode, loss=loss, eval_metric_ops={"accuracy": accuracy})

    if params["optimizer"] == "kfac":
        register(kfac.graph_layer_collection(), model, params)
    optimizer = replicate.TowerOptimizer(lambda: make_optimizer(params))
    train_op = optimizer.minimize(loss, global_step=v1.train.get_global_step())
    return replicate.EstimatorSpec(mode, loss=loss, train_op=train_op)


def make_optimizer(params: Any) -> Any:
    """Makes the optimizer that `params` names; see `model_fn` for its keys."""
    rate = falling(params, "learning_rate")
    if params["optimizer"] == "momentum":
        return v1.train.MomentumOptimizer(rate, params["momentum"])
    if params["optimizer"] == "adam":
        return v1.train.AdamOptimizer(rate, beta1=params["momentum"])
    return kfac.PeriodicInvCovUpdateKfacOpt(invert_every=INVERT_EVERY, **kfac_arguments(params))


def falling(params: Any, name: str) -> Any:
    """Returns a setting: a number, or a function that makes a Tensor, if there is a final value.

    Within "decay_steps" global steps the Tensor falls from params[name] to the final value, in each
    step by the same factor. It keeps that value afterwards.

    Args:
      params: As for `model_fn`.
      name: "learning_rate" or "damping".
    """
    first, final = params[name], params.get(f"final_{name}")
    if final is None:
        return first
    steps = params["decay_steps"]

    def value() -> Tensor:
        step = tf.cast(v1.train.get_or_create_global_step(), tf.float32)
        return first * (final / first) ** tf.minimum(step / steps, 1.0)

    return value


def kfac_arguments(params: Any, layers: kfac.LayerCollection | None = None) -> dict[str, Any]:
    """Returns the arguments that all K-FAC optimizers of this model share.

    Args:
      params: As for `model_fn`.
      layers: Collection of the registered layers. None means the graph's own collection.
    """
    return {
        "learning_rate": falling(params, "learning_rate"),
        "momentum": params["momentum"],
        "damping": falling(params, "damping"),
        "norm_constraint": params.get("norm_constraint", 0.001),
        "layer_collection": layers or kfac.graph_layer_collection(),
    }
