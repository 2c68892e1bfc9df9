"""The functions of tf.contrib.kfac's MLP tutorial, by their names there, to import and call.

    from examples import mlp_tutorial as mlp

    mlp.train_mnist("DIR", num_epochs=5)

Arguments and settings of the optimizer are those of the tutorial. `data_dir` may also be given by
name, or be left out: then scikit-learn's digits take the place of MNIST. Each `train_…` function
builds its own graph. Call the other functions inside `with tf.Graph().as_default():`.
docs/reference/old_names_kfac.md has the differences from the tutorial.

Reference: Martens & Grosse (2015), "Optimizing Neural Networks with Kronecker-factored Approximate
Curvature", arXiv 1503.05671.
"""

from collections.abc import Mapping
from typing import Any

import tensorflow as tf

import kfac
import replicate
from examples import convnet_tutorial, mnist, training
from examples.argument_order import in_older_order
from examples.convnet_modes import kfac_updates, multitower
from examples.mlp import fc_layer, mean_loss

__all__ = [
    "build_model",
    "fc_layer",
    "minimize",
    "train_mnist",
    "train_mnist_estimator",
    "train_mnist_multitower",
]

v1 = tf.compat.v1
Tensor = Any

BATCH = 64
"""Images in a batch, of each tower."""

UNITS = (128, 64, 32)
"""Units of the layers before the last one."""


def optimizer_params() -> dict[str, Any]:
    """Returns the settings of the tutorial's optimizer, as for `kfac_updates.minimize`.

    Its learning rate begins at 2e-5 and is halved every 10,000 steps.
    """
    return {**convnet_tutorial.estimator_params(), "momentum": 0.99, "damping": 1e-4}


def build_model(
    examples: Tensor, labels: Tensor, num_labels: int, layer_collection: kfac.LayerCollection
) -> tuple[Tensor, Tensor]:
    """Builds the perceptron on rows [batch, pixels], and registers it: (mean loss, accuracy)."""
    inputs = logits = examples
    for layer_id, units in enumerate((*UNITS, num_labels)):
        logits, activations, params = fc_layer(layer_id, inputs, units)
        layer_collection.register_fully_connected(params, inputs, logits)
        inputs = activations
    layer_collection.register_categorical_predictive_distribution(logits, name="logits")
    is_right = tf.equal(tf.argmax(logits, axis=1), tf.cast(labels, tf.int64))
    return mean_loss(logits, labels), tf.reduce_mean(tf.cast(is_right, tf.float32))


def minimize(
    loss: Tensor,
    accuracy: Tensor,
    layer_collection: kfac.LayerCollection,
    session_config: Any = None,
) -> float:
    """Trains until the input ends, and returns the accuracy on the last batch."""
    return convnet_tutorial.train_until_input_ends(
        loss, accuracy, layer_collection, optimizer_params(), session_config=session_config
    )


@in_older_order("data_dir", "num_epochs", "use_fake_data", told_by="data_dir")
def train_mnist(
    num_epochs: int, use_fake_data: bool = False, *, data_dir: str | None = None
) -> float:
    """Trains on one device. Returns the accuracy on the last batch.

    Args:
      num_epochs: Number of passes over the images.
      use_fake_data: True: train on images of noise.
      data_dir: Folder of MNIST's IDX files; None means scikit-learn's digits. It may also be the
        first argument, before `num_epochs`.

    Raises:
      TypeError: The arguments are in neither of the two orders.
      ValueError: As in `mnist.load_mnist`. Both hold for all functions that take `data_dir`.
    """
    with tf.Graph().as_default():
        batch = mnist.load_mnist(data_dir, num_epochs, BATCH, True, use_fake_data)
        layers = kfac.LayerCollection()
        return minimize(*build_model(*batch, mnist.CLASSES, layers), layers)


@in_older_order("data_dir", "num_epochs", "num_towers", "use_fake_data", told_by="data_dir")
def train_mnist_multitower(
    num_epochs: int,
    num_towers: int | None = None,
    use_fake_data: bool = False,
    *,
    data_dir: str | None = None,
) -> float:
    """Trains on several devices. Returns the accuracy on the last batch.

    The arguments are those of `train_mnist`, and the number of towers; None means as many as there
    are GPUs, or two.

    Raises:
      TypeError: As in `train_mnist`.
      ValueError: As in `train_mnist`, or there are too few devices.
    """
    plan = training.plan_towers(num_towers, None)
    with tf.Graph().as_default():
        size = BATCH * len(plan.towers)
        batch = mnist.load_mnist(data_dir, num_epochs, size, True, use_fake_data)
        layers = kfac.LayerCollection()
        measures = multitower.mean_of_towers(
            batch, plan, lambda x, y: build_model(x, y, mnist.CLASSES, layers)
        )
        return minimize(*measures, layers)


@in_older_order("data_dir", "num_epochs", "use_fake_data", told_by="data_dir")
def train_mnist_estimator(
    num_epochs: int,
    use_fake_data: bool = False,
    *,
    data_dir: str | None = None,
    model_dir: str | None = None,
) -> float:
    """Trains with an Estimator. Returns the accuracy on all training images.

    The arguments are those of `train_mnist`, and the directory of the checkpoints, None for a
    temporary folder.

    Raises:
      TypeError: As in `train_mnist`.
      ValueError: As in `train_mnist`.
    """
    examples = mnist.training_examples(data_dir, use_fake_data)
    estimator = replicate.Estimator(_model_fn, model_dir, params=optimizer_params())
    estimator.train(lambda: mnist.input_fn(*examples, BATCH, training=True, num_epochs=num_epochs))
    return float(
        estimator.evaluate(lambda: mnist.input_fn(*examples, BATCH, training=False))["accuracy"]
    )


def _model_fn(features: Tensor, labels: Tensor, mode: str, params: Mapping[str, Any]) -> Any:
    """Builds the graph of a training or of an evaluation."""
    layers = kfac.LayerCollection()
    rows = tf.reshape(features, [-1, features.shape[1:].num_elements()])
    loss, accuracy = build_model(rows, labels, mnist.CLASSES, layers)
    if mode == replicate.ModeKeys.EVAL:
        weight = tf.shape(labels)[0]
        metrics = {"accuracy": v1.metrics.mean(accuracy, weight)}
        return replicate.EstimatorSpec(mode, loss=loss, eval_metric_ops=metrics)
    train_op = kfac_updates.minimize(loss, params, layers=layers)
    return replicate.EstimatorSpec(mode, loss=loss, train_op=train_op)
