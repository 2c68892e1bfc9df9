"""Inception v3: blocks whose branches look at windows of several sizes, and an auxiliary head.

A 5x5 window is two of 3x3, a 7x7 window is 7x1 after 1x7, and so on (§3). Table 1 of the paper
gives the kinds of blocks; their channels are those of the released network, and so are the stem's
last convolutions. The blocks are named by what they are and give 35x35, 17x17 and 8x8 pixels for
images of 299x299. Called through `factory.get_network_fn`.

Reference: Szegedy, Vanhoucke, Ioffe, Shlens & Wojna (2015), "Rethinking the Inception Architecture
for Computer Vision", arXiv 1512.00567.
"""

from collections.abc import Sequence
from typing import NamedTuple

import tensorflow as tf

from examples.slim.networks.layers import (
    EndPoints,
    Layers,
    Size,
    Tensor,
    avg_pool,
    global_pool,
    max_pool,
    network,
)

v1 = tf.compat.v1
SMALLEST_IMAGE = 75
"""Pixels in height and width; what is left of these at the end is one pixel."""


@network(default_image_size=299)
def inception_v3(
    images: Tensor, num_classes: int | None, layers: Layers
) -> tuple[Tensor, EndPoints]:
    """Builds Inception v3: logits [batch, num_classes] or features [batch, 2048]; and end points.

    The logits of the auxiliary head are among them, as `AuxLogits`. Height and width are static.

    Raises:
      ValueError: The images are too small, or of unknown size.
    """
    _check_size(images)
    ends = _stem(images, layers)
    hidden = ends["pool2"]
    for number, pooled in enumerate((32, 64, 64), start=1):
        name = f"mixed35_{number}"
        hidden = ends[name] = _block_35(layers, name, hidden, pooled)
    hidden = ends["reduced17"] = _reduced_to_17(layers, hidden)
    for number, channels in enumerate((128, 160, 160, 192), start=1):
        name = f"mixed17_{number}"
        hidden = ends[name] = _block_17(layers, name, hidden, channels)
    if num_classes:
        ends["AuxLogits"] = _auxiliary_logits(layers, hidden, num_classes)
    hidden = ends["reduced8"] = _reduced_to_8(layers, hidden)
    for number in (1, 2):
        name = f"mixed8_{number}"
        hidden = ends[name] = _block_8(layers, name, hidden)
    features = layers.dropout(global_pool(hidden), 0.8)
    return layers.classified(features, num_classes, ends)


def _check_size(images: Tensor) -> None:
    height, width = images.shape.as_list()[1:3]
    if height is None or width is None or min(height, width) < SMALLEST_IMAGE:
        raise ValueError(
            f"inception_v3: images must have a static size of at least {SMALLEST_IMAGE}x"
            f"{SMALLEST_IMAGE}, got {height}x{width}. Enlarge them, or take a network for smaller "
            "ones."
        )


def _stem(images: Tensor, layers: Layers) -> EndPoints:
    """Builds what comes before the blocks; images of 299x299 become 35x35 pixels."""
    ends: EndPoints = {}
    ends["conv1"] = layers.conv2d_bn("conv1", images, 32, 3, 2, "VALID")
    ends["conv2"] = layers.conv2d_bn("conv2", ends["conv1"], 32, 3, 1, "VALID")
    ends["conv3"] = layers.conv2d_bn("conv3", ends["conv2"], 64, 3)
    ends["pool1"] = max_pool(ends["conv3"], 3, 2, "VALID")
    ends["conv4"] = layers.conv2d_bn("conv4", ends["pool1"], 80, 1)
    ends["conv5"] = layers.conv2d_bn("conv5", ends["conv4"], 192, 3, 1, "VALID")
    ends["pool2"] = max_pool(ends["conv5"], 3, 2, "VALID")
    return ends


class _Conv(NamedTuple):
    """One convolution of a branch."""

    channels: int
    size: Size
    stride: int = 1
    padding: str = "SAME"


def _branch(layers: Layers, name: str, inputs: Tensor, *convs: _Conv) -> Tensor:
    """Puts convolutions one after the other, in scopes `<name>/conv1` and so on."""
    with v1.variable_scope(name):
        for number, conv in enumerate(convs, start=1):
            inputs = layers.conv2d_bn(f"conv{number}", inputs, *conv)
    return inputs


def _joined(branches: Sequence[Tensor]) -> Tensor:
    return tf.concat(branches, axis=-1)


def _block_35(layers: Layers, name: str, inputs: Tensor, pooled: int) -> Tensor:
    """Builds a block of figure 5: [batch, height, width, 224 + pooled]."""
    with v1.variable_scope(name):
        return _joined(
            [
                _branch(layers, "one", inputs, _Conv(64, 1)),
                _branch(layers, "five", inputs, _Conv(48, 1), _Conv(64, 5)),
                _branch(layers, "three_twice", inputs, _Conv(64, 1), _Conv(96, 3), _Conv(96, 3)),
                _branch(layers, "pool", avg_pool(inputs, 3, 1), _Conv(pooled, 1)),
            ]
        )


def _reduced_to_17(layers: Layers, inputs: Tensor) -> Tensor:
    """Halves height and width without a bottleneck, §5: [batch, height, width, 768]."""
    halving = _Conv(96, 3, 2, "VALID")
    with v1.variable_scope("reduced17"):
        return _joined(
            [
                _branch(layers, "three", inputs, _Conv(384, 3, 2, "VALID")),
                _branch(layers, "three_twice", inputs, _Conv(64, 1), _Conv(96, 3), halving),
                max_pool(inputs, 3, 2, "VALID"),
            ]
        )


def _block_17(layers: Layers, name: str, inputs: Tensor, channels: int) -> Tensor:
    """Builds a block of figure 6 with n = 7: [batch, height, width, 768].

    `channels` are those of the convolutions that are not a branch's last one.
    """
    reduce, row, column = _Conv(channels, 1), _Conv(channels, (1, 7)), _Conv(channels, (7, 1))
    last_row, last_column = _Conv(192, (1, 7)), _Conv(192, (7, 1))
    with v1.variable_scope(name):
        return _joined(
            [
                _branch(layers, "one", inputs, _Conv(192, 1)),
                _branch(layers, "seven", inputs, reduce, row, last_column),
                _branch(layers, "seven_twice", inputs, reduce, column, row, column, last_row),
                _branch(layers, "pool", avg_pool(inputs, 3, 1), _Conv(192, 1)),
            ]
        )


def _reduced_to_8(layers: Layers, inputs: Tensor) -> Tensor:
    """Halves height and width: [batch, height, width, 1280]."""
    reduce, row, column = _Conv(192, 1), _Conv(192, (1, 7)), _Conv(192, (7, 1))
    halving = _Conv(192, 3, 2, "VALID")
    with v1.variable_scope("reduced8"):
        return _joined(
            [
                _branch(layers, "three", inputs, reduce, _Conv(320, 3, 2, "VALID")),
                _branch(layers, "seven", inputs, reduce, row, column, halving),
                max_pool(inputs, 3, 2, "VALID"),
            ]
        )


def _block_8(layers: Layers, name: str, inputs: Tensor) -> Tensor:
    """Builds a block of figure 7, two branches of which fork: [batch, height, width, 2048]."""
    row, column = _Conv(384, (1, 3)), _Conv(384, (3, 1))
    with v1.variable_scope(name):
        three = _branch(layers, "three", inputs, _Conv(384, 1))
        twice = _branch(layers, "three_twice", inputs, _Conv(448, 1), _Conv(384, 3))
        return _joined(
            [
                _branch(layers, "one", inputs, _Conv(320, 1)),
                _branch(layers, "three_row", three, row),
                _branch(layers, "three_column", three, column),
                _branch(layers, "three_twice_row", twice, row),
                _branch(layers, "three_twice_column", twice, column),
                _branch(layers, "pool", avg_pool(inputs, 3, 1), _Conv(192, 1)),
            ]
        )


def _auxiliary_logits(layers: Layers, inputs: Tensor, num_classes: int) -> Tensor:
    """Builds the auxiliary classifier on the last blocks of 17x17 pixels, §4.

    Where there are fewer pixels, its windows are as small as these.
    """
    window = min(5, *inputs.shape.as_list()[1:3])
    with v1.variable_scope("aux_logits"):
        hidden = avg_pool(inputs, window, 3, "VALID")
        hidden = layers.conv2d_bn("conv1", hidden, 128, 1)
        height, width = (min(5, side) for side in hidden.shape.as_list()[1:3])
        hidden = layers.conv2d_bn("conv2", hidden, 768, (height, width), 1, "VALID")
        return layers.logits("logits", global_pool(hidden), num_classes)
