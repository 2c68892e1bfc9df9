"""VGG: blocks of 3x3 convolutions and pools, then two wide dense layers.

VGG-11 and VGG-16 are columns A and D of the paper's table 1. Nearly all of their 133 and 138
million parameters are in the first dense layer, whose size goes with that of the images. Called
through `factory.get_network_fn`.

Reference: Simonyan & Zisserman (2014), "Very Deep Convolutional Networks for Large-Scale Image
Recognition", arXiv 1409.1556.
"""

from collections.abc import Sequence

from examples.slim.networks.layers import EndPoints, Layers, Tensor, flatten, max_pool, network

_CHANNELS = (64, 128, 256, 512, 512)
"""Of the convolutions in each block."""


@network(default_image_size=224)
def vgg_11(images: Tensor, num_classes: int | None, layers: Layers) -> tuple[Tensor, EndPoints]:
    """Builds VGG-11, configuration A; for arguments and results see `vgg_16`."""
    return _vgg(images, num_classes, layers, convolutions=(1, 1, 2, 2, 2))


@network(default_image_size=224)
def vgg_16(images: Tensor, num_classes: int | None, layers: Layers) -> tuple[Tensor, EndPoints]:
    """Builds VGG-16, D: logits [batch, num_classes] or features [batch, 4096], and end points."""
    return _vgg(images, num_classes, layers, convolutions=(2, 2, 3, 3, 3))


def _vgg(
    images: Tensor, num_classes: int | None, layers: Layers, convolutions: Sequence[int]
) -> tuple[Tensor, EndPoints]:
    """Builds a VGG with so many convolutions in each of its five blocks."""
    ends: EndPoints = {}
    hidden = images
    for block, (count, channels) in enumerate(zip(convolutions, _CHANNELS, strict=True), start=1):
        for number in range(1, count + 1):
            name = f"conv{block}_{number}"
            hidden = ends[name] = layers.conv2d(name, hidden, channels, 3)
        hidden = ends[f"pool{block}"] = max_pool(hidden, 2, 2)
    hidden = ends["fc6"] = layers.dense("fc6", flatten(hidden), 4096)
    hidden = ends["fc7"] = layers.dense("fc7", layers.dropout(hidden, 0.5), 4096)
    return layers.classified(layers.dropout(hidden, 0.5), num_classes, ends)
