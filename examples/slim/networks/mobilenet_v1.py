"""MobileNet v1: a convolution for each channel, then one across channels, thirteen times.

The paper's width multiplier α is `Layers.depth_multiplier`; it has results for 1, 0.75, 0.5 and
0.25. Called through `factory.get_network_fn`.

Reference: Howard et al. (2017), "MobileNets: Efficient Convolutional Neural Networks for Mobile
Vision Applications", arXiv 1704.04861, table 1.
"""

from examples.slim.networks.layers import EndPoints, Layers, Tensor, global_pool, network

_BLOCKS = (
    (64, 1),
    (128, 2),
    (128, 1),
    (256, 2),
    (256, 1),
    (512, 2),
    *[(512, 1)] * 5,
    (1024, 2),
    (1024, 1),
)
"""Channels, and stride of the depthwise convolution. The stride of the last one is 2 in table 1,
which does not go with the sizes that stand beside it."""


@network(default_image_size=224)
def mobilenet_v1(
    images: Tensor, num_classes: int | None, layers: Layers
) -> tuple[Tensor, EndPoints]:
    """Builds MobileNet v1: logits [batch, num_classes] or features [batch, 1024], end points."""
    ends: EndPoints = {}
    hidden = ends["conv0"] = layers.conv2d_bn("conv0", images, 32, 3, stride=2)
    for number, (channels, stride) in enumerate(_BLOCKS, start=1):
        depthwise, pointwise = f"depthwise{number}", f"pointwise{number}"
        hidden = ends[depthwise] = layers.depthwise_bn(depthwise, hidden, 3, stride)
        hidden = ends[pointwise] = layers.conv2d_bn(pointwise, hidden, channels, 1)
    return layers.classified(global_pool(hidden), num_classes, ends)
