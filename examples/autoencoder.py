"""Trains a deep autoencoder on images of digits, on two towers, with K-FAC that adapts by itself.

    python -m examples.autoencoder

The network is

    image 64 -> 100 -> 50 -> 25 -> 2 (code) -> 25 -> 50 -> 100 -> image 64, tanh in between

A code of two numbers makes the network hard to train with first-order methods. K-FAC needs neither
a learning rate nor a momentum here: each step takes them from the quadratic model of the loss, with
the exact curvature of the batch. The damping adapts to how well that model predicts the loss.

Draws autoencoder.png in the model directory: test images above their reconstructions, and the codes
of all test images.

References:
  Hinton & Salakhutdinov (2006), "Reducing the Dimensionality of Data with Neural Networks".
  Martens & Grosse (2015), arXiv 1503.05671, section 6.4 (learning rate and momentum), section 6.5
  (damping).
"""

from __future__ import annotations

from typing import Any, NamedTuple

from absl import flags

import replicate
from examples import cli, mnist
from examples.lazy_module import LazyModule

# Imported when first used, so that --help and mistakes are answered at once.
tf = LazyModule("tensorflow")
v1 = LazyModule("tensorflow.compat.v1")
kfac = LazyModule("kfac")

FLAGS = flags.FLAGS
Tensor = Any
HIDDEN = (100, 50, 25)
"""Units between the pixels and the code; the second half mirrors them."""

CODE = 2
LARGE_BATCHES = {
    "min_damping": 1e-6,
    "damping_adaptation_interval": 5,
    "rejection_rho_threshold": None,
}
"""Limits of an adaptive K-FAC that may make long steps: batches here are large, the loss small."""


class Autoencoder(NamedTuple):
    """Outputs of the network: codes [batch, CODE] and logits of pixels [batch, pixels]."""

    codes: Tensor
    logits: Tensor


def build_model(images: Tensor, layers: kfac.LayerCollection | None = None) -> Autoencoder:
    """Encodes and decodes images.

    Args:
      images: Intensities in [0, 1], [batch, height, width, 1].
      layers: Collection that registers layers and loss for K-FAC, or None.
    """
    pixels = images.shape[1:].num_elements()
    activations = tf.reshape(images, [-1, pixels])
    sizes = (*HIDDEN, CODE, *reversed(HIDDEN), pixels)
    outputs = []
    for index, units in enumerate(sizes):
        with v1.variable_scope(f"layer{index + 1}"):
            weights = v1.get_variable("weights", [activations.shape[1], units])
            bias = v1.get_variable("bias", [units], initializer=v1.initializers.zeros())
        outputs.append(activations @ weights + bias)
        if layers is not None:
            layers.register_fully_connected((weights, bias), activations, outputs[-1])
        activations = outputs[-1] if index == len(HIDDEN) else tf.tanh(outputs[-1])
    if layers is not None:
        layers.register_multi_bernoulli_predictive_distribution(outputs[-1], name="pixels")
    return Autoencoder(outputs[len(HIDDEN)], outputs[-1])


def mean_loss(logits: Tensor, images: Tensor) -> Tensor:
    """Returns the cross entropy, summed over pixels, mean over images, shape []."""
    targets = tf.reshape(images, tf.shape(logits))
    losses = tf.nn.sigmoid_cross_entropy_with_logits(labels=targets, logits=logits)
    return tf.reduce_mean(tf.reduce_sum(losses, axis=1))


def model_fn(features: Tensor, labels: Tensor, mode: str, params: Any) -> Any:
    """Builds one tower.

    Args:
      features: This tower's images, [batch, height, width, 1].
      labels: Not looked at.
      mode: One of replicate.ModeKeys.
      params: Dict with "damping", at first, in multiples of the mean curvature.

    Returns:
      A replicate.EstimatorSpec; the predictions are "image", as `features`, and "code" [batch, 2].
    """
    del labels
    is_training = mode == replicate.ModeKeys.TRAIN
    layers = kfac.graph_layer_collection() if is_training else None
    model = build_model(features, layers)
    decoded = tf.reshape(tf.sigmoid(model.logits), tf.shape(features))
    if mode == replicate.ModeKeys.PREDICT:
        predictions = {"image": decoded, "code": model.codes}
        return replicate.EstimatorSpec(mode, predictions=predictions)

    loss = mean_loss(model.logits, features)
    if mode == replicate.ModeKeys.EVAL:
        error = v1.metrics.mean_squared_error(features, decoded)
        return replicate.EstimatorSpec(mode, loss=loss, eval_metric_ops={"error": error})

    optimizer = replicate.TowerOptimizer(
        lambda: kfac.adaptive(damping=params["damping"], **LARGE_BATCHES)
    )
    train_op = optimizer.minimize(loss, global_step=v1.train.get_global_step())
    return replicate.EstimatorSpec(mode, loss=loss, train_op=train_op)


def define_flags() -> None:
    """Defines the flags of the program."""
    cli.define_run_flags(
        model_dir="runs/autoencoder", batch_size=512, train_steps=100, eval_every_steps=50
    )
    cli.define_positive("damping", 0.1, "At first, in multiples of the mean curvature.")


def main() -> None:
    """Trains, evaluates and draws, as the flags say."""
    settings = cli.read_run_flags()
    with cli.bad_input():
        data = mnist.load(settings.data_dir)
        cli.claim_model_dir(settings.model_dir, f"an autoencoder of {data.size}")

    cli.import_tensorflow()
    from examples import pictures, training  # noqa: PLC0415

    params = {"damping": FLAGS.damping}
    title = f"Autoencoder of {data.name}, K-FAC"
    estimator = training.run(model_fn, data, settings, params, title)
    predictions = list(
        estimator.predict(lambda: mnist.input_fn(*data.test, training.EVAL_BATCH, training=False))
    )
    picture = f"{settings.model_dir}/autoencoder.png"
    pictures.draw_autoencoder(
        data.test,
        [prediction["image"] for prediction in predictions],
        [prediction["code"] for prediction in predictions],
        picture,
    )
    cli.show("picture", picture)


if __name__ == "__main__":
    define_flags()
    cli.run(main)
