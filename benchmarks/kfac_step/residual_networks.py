"""The residual networks of the benchmarks, by name, and K-FAC for them, in TensorFlow 1 only.

References:
  He, Zhang, Ren & Sun (2015), "Deep Residual Learning for Image Recognition", arXiv 1512.03385,
  table 1 (ResNet-50) and §4.2 (6n + 2 layers for images of 32×32: ResNet-20 has n = 3, ResNet-56
  has n = 9).
"""

import functools
import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import tensorflow as tf

import kfac
from benchmarks import rivals
from benchmarks.kfac_step import AVERAGE_EVERY, INVERT_RESIDUAL_EVERY
from benchmarks.session_programs import mean_cross_entropy
from examples.slim.networks import factory

v1 = tf.compat.v1

CLASSES = 10
SIDE = 32
"""Height and width of the images, in pixels."""
UNITS: Mapping[str, int] = {"resnet20": 3, "resnet56": 9}
"""Units of two convolutions in each of the three stages, n in the paper, by network."""
_STAGE_CHANNELS = (16, 32, 64)


class Network(NamedTuple):
    """A network of images [batch, side, side, 3], their usual side, and a batch size."""

    logits: Callable[[Any], Any]
    side: int
    batch_size: int


def random_images(network: Network, batch_size: int) -> Any:
    """Returns the same random images in each run, [batch_size, side, side, 3]."""
    return tf.random.stateless_uniform([batch_size, network.side, network.side, 3], seed=[1, 2])


def resnet_50(images: Any) -> Any:
    """Returns the logits [batch, classes] of ResNet-50."""
    return factory.get_network_fn("resnet_v1_50", CLASSES, is_training=True)(images)[0]


def small_resnet(images: Any, units: int) -> Any:
    """Returns the logits [batch, `CLASSES`] of images [batch, side, side, 3]."""
    outputs = tf.nn.relu(_convolve(images, "first", _STAGE_CHANNELS[0], 1))
    for stage, channels in enumerate(_STAGE_CHANNELS):
        for unit in range(units):
            stride = 2 if stage and not unit else 1
            with v1.variable_scope(f"stage{stage}_unit{unit}"):
                outputs = _unit(outputs, channels, stride)
    features = tf.reduce_mean(outputs, axis=[1, 2])
    with v1.variable_scope("logits"):
        weights = v1.get_variable("weights", [features.shape[-1], CLASSES])
        bias = v1.get_variable("bias", [CLASSES], initializer=v1.zeros_initializer())
        return features @ weights + bias


def mean_loss(scores: Any) -> Any:
    """Returns the mean cross entropy of logits [batch, `CLASSES`], shape []."""
    return mean_cross_entropy(scores, tf.range(scores.shape[0]) % CLASSES)


def registered_logits(
    network: Network, images: Any, layers: kfac.LayerCollection, curvature_share: float
) -> Any:
    """Builds a network, registers it, and returns the logits of all images.

    With a `curvature_share` below 1 the network is built twice: for the images of which averages
    are made, and for all.
    """
    if curvature_share == 1:
        logits = network.logits(images)
        register(layers, logits)
        return logits
    register(layers, network.logits(images[: math.ceil(curvature_share * int(images.shape[0]))]))
    with v1.variable_scope(v1.get_variable_scope(), reuse=True):
        return network.logits(images)


def register(layers: kfac.LayerCollection, logits: Any) -> None:
    """Registers the layers and the loss of a network in the default graph."""
    # A full block of n channels has 2n rows: as many as the largest convolutions, for few weights.
    layers.set_default_scale_and_shift_approximation("diagonal")
    layers.register_categorical_predictive_distribution(logits, name="classes")
    if rivals.is_here():
        layers.set_default_generic_approximation("diagonal")  # For batch norms' scale and shift.
        layers.auto_register_layers(batch_size=int(logits.shape[0]))
    else:
        layers.auto_register_layers()


def make_kfac(layers: kfac.LayerCollection, **settings: bool) -> Any:
    """Returns K-FAC as the benchmarks set it for residual networks, with further settings."""
    return kfac.PeriodicInvCovUpdateKfacOpt(
        invert_every=INVERT_RESIDUAL_EVERY,
        cov_update_every=AVERAGE_EVERY,
        **settings,
        learning_rate=1e-4,
        momentum=0.9,
        damping=0.01,
        norm_constraint=1e-3,
        layer_collection=layers,
    )


def _unit(inputs: Any, channels: int, stride: int) -> Any:
    shortcut = inputs
    if stride != 1:
        shortcut = _convolve(inputs, "shortcut", channels, stride, size=1)
    outputs = tf.nn.relu(_convolve(inputs, "conv1", channels, stride))
    return tf.nn.relu(shortcut + _convolve(outputs, "conv2", channels, 1))


def _convolve(inputs: Any, name: str, channels: int, stride: int, size: int = 3) -> Any:
    """Returns a convolution, normalized over the batch."""
    with v1.variable_scope(name):
        shape = [size, size, inputs.shape[-1], channels]
        filters = v1.get_variable("weights", shape, initializer=v1.initializers.he_normal())
        outputs = tf.nn.conv2d(inputs, filters, stride, "SAME")
        scale = v1.get_variable("gamma", [channels], initializer=v1.ones_initializer())
        shift = v1.get_variable("beta", [channels], initializer=v1.zeros_initializer())
        return v1.nn.fused_batch_norm(outputs, scale, shift, is_training=True)[0]


NETWORKS: Mapping[str, Network] = {
    **{
        name: Network(functools.partial(small_resnet, units=units), SIDE, batch_size=128)
        for name, units in UNITS.items()
    },
    "resnet50": Network(resnet_50, side=64, batch_size=256),
}
"""The networks by name."""
