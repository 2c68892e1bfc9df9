"""Residual networks: each unit adds what its convolutions make to what came in.

    v1    x -> relu(shortcut(x) + normalize(conv(... relu(normalize(conv(x))))))
    v2    x -> shortcut(x) + conv(relu(normalize(... conv(relu(normalize(x))))))

With 18 and 34 layers a unit has two 3x3 convolutions; with 50, a 3x3 convolution between 1x1 ones
that reduce the channels to a quarter and bring them back (He et al. 2015, figure 5). The first unit
of a stage has its stride in its first convolution, and a 1x1 convolution as its shortcut where
shapes differ (option B). Called through `factory.get_network_fn`.

References:
  He, Zhang, Ren & Sun (2015), "Deep Residual Learning for Image Recognition", arXiv 1512.03385,
  table 1.
  He, Zhang, Ren & Sun (2016), "Identity Mappings in Deep Residual Networks", arXiv 1603.05027,
  figure 4(e) and appendix.
"""

import functools
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, TypeAlias

import tensorflow as tf

from examples.slim.networks.layers import (
    EndPoints,
    Layers,
    Tensor,
    channels_of,
    global_pool,
    max_pool,
    network,
)

v1 = tf.compat.v1


class _Conv(NamedTuple):
    """One convolution of a unit."""

    name: str
    channels: int
    size: int
    stride: int = 1


_Unit: TypeAlias = Callable[[int, int], list[_Conv]]
"""Gives the convolutions of a unit, by the channels of its stage and its stride."""


def _basic(channels: int, stride: int) -> list[_Conv]:
    return [_Conv("conv1", channels, 3, stride), _Conv("conv2", channels, 3)]


def _bottleneck(channels: int, stride: int) -> list[_Conv]:
    return [
        _Conv("conv1", channels, 1, stride),
        _Conv("conv2", channels, 3),
        _Conv("conv3", 4 * channels, 1),
    ]


@network(default_image_size=224)
def resnet_v1_18(
    images: Tensor, num_classes: int | None, layers: Layers
) -> tuple[Tensor, EndPoints]:
    """Builds ResNet-18; for arguments and results see `resnet_v1_50`."""
    return _resnet_v1(images, num_classes, layers, _basic, (2, 2, 2, 2))


@network(default_image_size=224)
def resnet_v1_34(
    images: Tensor, num_classes: int | None, layers: Layers
) -> tuple[Tensor, EndPoints]:
    """Builds ResNet-34; for arguments and results see `resnet_v1_50`."""
    return _resnet_v1(images, num_classes, layers, _basic, (3, 4, 6, 3))


@network(default_image_size=224)
def resnet_v1_50(
    images: Tensor, num_classes: int | None, layers: Layers
) -> tuple[Tensor, EndPoints]:
    """Builds ResNet-50: logits [batch, num_classes], or features [batch, 2048]; and the end points.

    With 18 and 34 layers there are 512 features.
    """
    return _resnet_v1(images, num_classes, layers, _bottleneck, (3, 4, 6, 3))


@network(default_image_size=224)
def resnet_v2_18(
    images: Tensor, num_classes: int | None, layers: Layers
) -> tuple[Tensor, EndPoints]:
    """Builds the pre-activation ResNet-18; for arguments and results see `resnet_v1_50`."""
    return _resnet_v2(images, num_classes, layers, _basic, (2, 2, 2, 2))


@network(default_image_size=224)
def resnet_v2_34(
    images: Tensor, num_classes: int | None, layers: Layers
) -> tuple[Tensor, EndPoints]:
    """Builds the pre-activation ResNet-34; for arguments and results see `resnet_v1_50`."""
    return _resnet_v2(images, num_classes, layers, _basic, (3, 4, 6, 3))


@network(default_image_size=224)
def resnet_v2_50(
    images: Tensor, num_classes: int | None, layers: Layers
) -> tuple[Tensor, EndPoints]:
    """Builds the pre-activation ResNet-50; for arguments and results see `resnet_v1_50`."""
    return _resnet_v2(images, num_classes, layers, _bottleneck, (3, 4, 6, 3))


def _resnet_v1(
    images: Tensor, num_classes: int | None, layers: Layers, unit: _Unit, counts: Sequence[int]
) -> tuple[Tensor, EndPoints]:
    ends = _begun(images, layers)
    hidden = ends["pool1"]
    for name, convs in _units(unit, counts):
        with v1.variable_scope(name):
            hidden = ends[name] = _unit_v1(layers, hidden, convs)
    return layers.classified(global_pool(hidden), num_classes, ends)


def _resnet_v2(
    images: Tensor, num_classes: int | None, layers: Layers, unit: _Unit, counts: Sequence[int]
) -> tuple[Tensor, EndPoints]:
    ends = _begun(images, layers)
    hidden = active = ends["pool1"]  # The stem ends with an activation.
    for name, convs in _units(unit, counts):
        with v1.variable_scope(name):
            hidden = ends[name] = _unit_v2(layers, hidden, active, convs)
            active = layers.batch_norm("postact", hidden)
    return layers.classified(global_pool(active), num_classes, ends)


def _begun(images: Tensor, layers: Layers) -> EndPoints:
    """Builds what comes before the units: a quarter of the height and width is left."""
    conv1 = layers.conv2d_bn("conv1", images, 64, 7, stride=2)
    return {"conv1": conv1, "pool1": max_pool(conv1, 3, 2)}


def _units(unit: _Unit, counts: Sequence[int]) -> Iterator[tuple[str, list[_Conv]]]:
    """Yields name and convolutions of each unit; from stage to stage channels double, sides halve.

    Args:
      unit: Gives the convolutions for channels and stride.
      counts: Units of each stage.
    """
    for stage, count in enumerate(counts):
        for number in range(count):
            stride = 2 if stage > 0 and number == 0 else 1
            yield f"block{stage + 1}/unit{number + 1}", unit(64 * 2**stage, stride)


def _unit_v1(layers: Layers, inputs: Tensor, convs: Sequence[_Conv]) -> Tensor:
    """Builds a unit that ends with an activation."""
    *first, last = convs
    hidden = inputs
    for conv in first:
        hidden = layers.conv2d_bn(conv.name, hidden, conv.channels, conv.size, conv.stride)
    hidden = layers.conv2d_bn(last.name, hidden, last.channels, last.size, activation=None)
    shortcut, stride = inputs, convs[0].stride
    if stride > 1 or channels_of(inputs) != channels_of(hidden):
        shortcut = layers.conv2d_bn("shortcut", inputs, last.channels, 1, stride, activation=None)
    return tf.nn.relu(shortcut + hidden)


def _unit_v2(layers: Layers, inputs: Tensor, active: Tensor, convs: Sequence[_Conv]) -> Tensor:
    """Builds a unit that ends with a sum; `active` is `inputs` after an activation."""
    *first, last = convs
    hidden = active
    for conv in first:
        hidden = layers.conv2d_bn(conv.name, hidden, conv.channels, conv.size, conv.stride)
    linear = functools.partial(layers.conv2d, use_bias=False, activation=None)
    hidden = linear(last.name, hidden, last.channels, last.size)
    shortcut, stride = inputs, convs[0].stride
    if stride > 1 or channels_of(inputs) != channels_of(hidden):
        shortcut = linear("shortcut", active, last.channels, 1, stride)
    return shortcut + hidden
