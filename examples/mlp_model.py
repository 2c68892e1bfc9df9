"""A multi-layer perceptron as a model_fn, and as a plain graph with K-FAC chained by hand.

    image -> linear 64, tanh -> linear 32, tanh -> linear 10

`model_fn` runs on one tower or many. `train_in_plain_graph` uses nothing of `replicate`. Both
spread K-FAC's work over the steps, so that no step pays for all inverses: the former by an argument
of the optimizer, the latter by hand. Flags are in `examples/mlp.py`.

Reference: Martens & Grosse (2015), "Optimizing Neural Networks with Kronecker-factored Approximate
Curvature", arXiv 1503.05671.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import tensorflow as tf

import kfac
import replicate
from examples import kfac_by_hand, mnist, plain_training
from examples.run_flags import RunSettings

v1 = tf.compat.v1
Tensor = Any
UNITS = (64, 32, mnist.CLASSES)
INVERT_EVERY = 5
"""Steps between two computations of the same inverse, where they are spread by K-FAC itself."""


class Layer(NamedTuple):
    """What K-FAC has to know of a layer: its parameters, what went in, what came out."""

    params: tuple[Any, Any]
    inputs: Tensor
    outputs: Tensor  # before the non-linearity


def linear_layer(name: str, inputs: Tensor, units: int) -> Layer:
    """Multiplies by a matrix and adds a bias: [batch, features] -> [batch, units]."""
    with v1.variable_scope(name):
        weights = v1.get_variable("weights", [inputs.shape[-1], units])
        bias = v1.get_variable("bias", [units], initializer=v1.initializers.zeros())
    return Layer((weights, bias), inputs, inputs @ weights + bias)


def build_model(images: Tensor) -> Sequence[Layer]:
    """Stacks the layers on images [batch, ...]; logits [batch, 10] leave the last one."""
    layers: list[Layer] = []
    activations = tf.reshape(images, [-1, images.shape[1:].num_elements()])
    for index, units in enumerate(UNITS):
        layers.append(linear_layer(f"linear{index + 1}", activations, units))
        activations = tf.tanh(layers[-1].outputs)
    return layers


def predict(images: Tensor) -> Tensor:
    """Returns the digits [batch] that the model sees in images."""
    return tf.argmax(build_model(images)[-1].outputs, axis=1, output_type=tf.int32)


def mean_loss(logits: Tensor, labels: Tensor) -> Tensor:
    """Returns the mean cross entropy, shape [], of logits [batch, 10] and digits [batch]."""
    return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits))


def register(layers: kfac.LayerCollection, model: Sequence[Layer]) -> None:
    """Tells K-FAC of the layers and of what the logits mean."""
    for layer in model:
        layers.register_fully_connected(layer.params, layer.inputs, layer.outputs)
    layers.register_categorical_predictive_distribution(model[-1].outputs, name="logits")


def model_fn(features: Tensor, labels: Tensor, mode: str, params: Any) -> Any:
    """Builds one tower.

    Args:
      features: This tower's images, [batch, height, width, 1].
      labels: Their digits, [batch], or None in PREDICT mode.
      mode: One of replicate.ModeKeys.
      params: Dict with "learning_rate", "momentum" and "damping" of K-FAC.

    Returns:
      A replicate.EstimatorSpec.
    """
    model = build_model(features)
    logits = model[-1].outputs
    classes = tf.argmax(logits, axis=1, output_type=tf.int32)
    if mode == replicate.ModeKeys.PREDICT:
        return replicate.EstimatorSpec(mode, predictions={"class": classes})

    loss = mean_loss(logits, labels)
    metrics = {"accuracy": v1.metrics.accuracy(labels, classes)}
    if mode == replicate.ModeKeys.EVAL:
        return replicate.EstimatorSpec(mode, loss=loss, eval_metric_ops=metrics)

    register(kfac.graph_layer_collection(), model)
    optimizer = replicate.TowerOptimizer(
        lambda: kfac.PeriodicInvCovUpdateKfacOpt(
            invert_every=INVERT_EVERY, spread_inverses=True, **_kfac_arguments(params)
        )
    )
    train_op = optimizer.minimize(loss, global_step=v1.train.get_global_step())
    return replicate.EstimatorSpec(mode, loss=loss, train_op=train_op)


def train_in_plain_graph(data: mnist.Dataset, settings: RunSettings, params: Any) -> None:
    """Trains on one device, without any model_fn, and prints how it went.

    Args:
      data: What to train and test on.
      settings: How to run.
      params: As for `model_fn`.
    """
    with tf.Graph().as_default():
        v1.set_random_seed(settings.seed)
        images, labels = mnist.tensors(*data.train, settings.batch_size, seed=settings.seed)
        model = build_model(images)
        loss = mean_loss(model[-1].outputs, labels)
        register(kfac.graph_layer_collection(), model)
        optimizer = kfac.KfacOptimizer(**_kfac_arguments(params))
        step = v1.train.get_or_create_global_step()
        train_op = kfac_by_hand.minimize_in_turn(optimizer, loss, step)
        seen = tf.argmax(model[-1].outputs, axis=1, output_type=tf.int32)
        accuracy = tf.reduce_mean(tf.cast(tf.equal(seen, labels), tf.float32))
        plain_training.run(train_op, loss, accuracy, predict, data, settings, params)


def _kfac_arguments(params: Any) -> dict[str, Any]:
    return {**params, "norm_constraint": 0.001, "layer_collection": kfac.graph_layer_collection()}
