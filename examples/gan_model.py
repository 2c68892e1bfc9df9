"""A generative adversarial network as one model_fn with two optimizers.

    generator:      noise 16 -> 128, ReLU -> 128, ReLU -> image 64, sigmoid
    discriminator:  image 64 -> 128, leaky ReLU -> 128, leaky ReLU -> real or made up

Each of the two has variables, a loss and an optimizer of its own, and each optimizer is wrapped in
a `replicate.TowerOptimizer`. One train op makes a step of both. Flags and the picture are in
`examples/gan.py`.

Reference: Goodfellow et al. (2014), "Generative Adversarial Networks", arXiv 1406.2661, section 3
(the generator's loss is the one that does not saturate).
"""

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

import replicate

v1 = tf.compat.v1
Tensor = Any
NOISE = 16
"""Numbers that an image is made of."""

_UNITS = (128, 128)


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
