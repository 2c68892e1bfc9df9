"""Trains a generative adversarial network on images of digits: two optimizers, on two towers.

    python -m examples.gan

The networks are

    generator:      noise 16 -> 128, ReLU -> 128, ReLU -> image 64, sigmoid
    discriminator:  image 64 -> 128, leaky ReLU -> 128, leaky ReLU -> real or made up

Each network has its own variables, loss and optimizer, and each optimizer is wrapped in a
`replicate.TowerOptimizer`. One train op makes a step of both.

Draws samples.png in the model directory. Prints mean Euclidean distances over pixels: from samples
to the nearest training image, which is large if samples are bad, and from test images to the
nearest sample, which is large also if all samples are alike.

Reference: Goodfellow et al. (2014), "Generative Adversarial Networks", arXiv 1406.2661, section 3
(the generator's loss is the one that does not saturate).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from absl import flags

import replicate
from examples import cli, mnist
from examples.lazy_module import LazyModule

# Imported when first used, so that --help and mistakes are answered at once.
tf = LazyModule("tensorflow")
v1 = LazyModule("tensorflow.compat.v1")

FLAGS = flags.FLAGS
Tensor = Any
NOISE = 16
"""Numbers that an image is made of."""

_UNITS = (128, 128)
_BATCH = 500
SAMPLES = 1000
SHOWN = 60


def generate(noise: Tensor, image_shape: Sequence[int]) -> Tensor:
    """Makes images [batch, *image_shape] in [0, 1] of noise [batch, NOISE]."""
    with v1.variable_scope("generator"):
        pixels = tf.TensorShape(image_shape).num_elements()
        logits = _stack(noise, (*_UNITS, pixels), tf.nn.relu)
    return tf.reshape(tf.sigmoid(logits), [-1, *image_shape])


def discriminate(images: Tensor) -> Tensor:
    """Returns logits [batch, 1] of images [batch, ...] being real."""
    with v1.variable_scope("discriminator", reuse=v1.AUTO_REUSE):
        pixels = images.shape[1:].num_elements()
        return _stack(tf.reshape(images, [-1, pixels]), (*_UNITS, 1), tf.nn.leaky_relu)


def model_fn(features: Tensor, labels: Tensor, mode: str, params: Any) -> Any:
    """Builds one tower.

    Args:
      features: This tower's images, [batch, height, width, 1]; noise [batch, NOISE] in PREDICT.
      labels: Not looked at.
      mode: One of replicate.ModeKeys.
      params: Dict with "image_shape", a tuple, and the "learning_rate" of both optimizers.

    Returns:
      A replicate.EstimatorSpec. Its loss is the discriminator's; "fooled" is how sure the
      discriminator is that made up images are real; the predictions are "image".
    """
    del labels
    if mode == replicate.ModeKeys.PREDICT:
        images = generate(features, params["image_shape"])
        return replicate.EstimatorSpec(mode, predictions={"image": images})

    noise = tf.random.stateless_normal([tf.shape(features)[0], NOISE], replicate.step_seed(0))
    on_real = discriminate(features)
    on_fake = discriminate(generate(noise, params["image_shape"]))
    loss = cross_entropy(on_real, 1.0) + cross_entropy(on_fake, 0.0)
    if mode == replicate.ModeKeys.EVAL:
        fooled = v1.metrics.mean(tf.sigmoid(on_fake))
        return replicate.EstimatorSpec(mode, loss=loss, eval_metric_ops={"fooled": fooled})

    steps = [
        make_optimizer(params, "generator").minimize(
            cross_entropy(on_fake, 1.0), var_list=_variables("generator")
        ),
        make_optimizer(params, "discriminator").minimize(
            loss, v1.train.get_global_step(), var_list=_variables("discriminator")
        ),
    ]
    return replicate.EstimatorSpec(mode, loss=loss, train_op=tf.group(*steps))


def make_optimizer(params: Any, name: str) -> replicate.TowerOptimizer:
    """Makes the optimizer of one of the two networks; see `model_fn` for `params`."""
    return replicate.TowerOptimizer(
        lambda: v1.train.AdamOptimizer(params["learning_rate"], beta1=0.5, name=name)
    )


def cross_entropy(logits: Tensor, target: float) -> Tensor:
    """Returns the mean over the batch of what it costs to take all for `target`, shape []."""
    targets = tf.fill(tf.shape(logits), target)
    return tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels=targets, logits=logits))


def _variables(scope: str) -> list[Any]:
    return v1.get_collection(v1.GraphKeys.TRAINABLE_VARIABLES, scope=f"{scope}/")


def _stack(inputs: Tensor, sizes: Sequence[int], activation: Callable[[Tensor], Tensor]) -> Tensor:
    """Stacks linear layers with an activation between them."""
    for index, units in enumerate(sizes):
        if index:
            inputs = activation(inputs)
        with v1.variable_scope(f"linear{index + 1}"):
            weights = v1.get_variable("weights", [inputs.shape[-1], units])
            bias = v1.get_variable("bias", [units], initializer=v1.initializers.zeros())
        inputs = inputs @ weights + bias
    return inputs


def draw_samples(estimator: replicate.Estimator, count: int, seed: int) -> np.ndarray:
    """Makes up images from the noise of a seed: float32 [count, height, width, 1]."""
    noise = np.random.default_rng(abs(seed)).standard_normal((count, NOISE), np.float32)
    predictions = estimator.predict(lambda: tf.data.Dataset.from_tensor_slices(noise).batch(_BATCH))
    return np.stack([prediction["image"] for prediction in predictions])


def distances(samples: np.ndarray, data: mnist.Dataset) -> dict[str, float]:
    """Returns how far images are from the nearest of others, on average, by what is compared."""
    train, test = data.train.images, data.test.images
    return {
        "sample to image": _mean_distance(samples, train),
        "test to image": _mean_distance(test, train),
        "test to sample": _mean_distance(test, samples),
    }


def _mean_distance(images: np.ndarray, others: np.ndarray) -> float:
    """Returns the mean over `images` of the distance to the nearest of `others`."""
    rows, columns = (array.reshape(len(array), -1) for array in (images, others))
    squares = (rows**2).sum(1)[:, np.newaxis] + (columns**2).sum(1) - 2 * rows @ columns.T
    return float(np.sqrt(np.maximum(squares.min(axis=1), 0)).mean())


def define_flags() -> None:
    """Defines the flags of the program."""
    cli.define_run_flags(
        model_dir="runs/gan", batch_size=128, train_steps=6000, eval_every_steps=2000
    )
    cli.define_positive("learning_rate", 0.001, "Of both optimizers.")


def main() -> None:
    """Trains, measures and draws, as the flags say."""
    settings = cli.read_run_flags()
    with cli.bad_input():
        data = mnist.load(settings.data_dir)
        cli.claim_model_dir(settings.model_dir, f"a GAN of {data.size}")

    cli.import_tensorflow()
    from examples import pictures, training  # noqa: PLC0415

    shape = data.train.images.shape[1:]
    params = {"learning_rate": FLAGS.learning_rate, "image_shape": shape}
    title = f"GAN of {data.name}, Adam"
    estimator = training.run(model_fn, data, settings, params, title)
    samples = draw_samples(estimator, SAMPLES, settings.seed)
    for what, distance in distances(samples, data).items():
        cli.show(what, f"{distance:.2f}")
    picture = f"{settings.model_dir}/samples.png"
    pictures.draw_samples(samples[:SHOWN], picture, f"samples of a GAN of {data.name}")
    cli.show("picture", picture)


if __name__ == "__main__":
    define_flags()
    cli.run(main)
