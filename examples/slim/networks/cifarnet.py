"""CifarNet: two convolutions with local response normalization, three dense layers.

    conv 5x5, 64 -> pool -> normalize -> conv 5x5, 64 -> normalize -> pool
    -> dense 384 -> dropout -> dense 192 -> logits

A small relative of Krizhevsky's network for ImageNet, for images of 32x32 pixels. Called through
`factory.get_network_fn`.

Reference: Krizhevsky, Sutskever & Hinton (2012), "ImageNet Classification with Deep Convolutional
Neural Networks", §3.3 (normalization), §3.4 (windows of pools that overlap).
"""

import numpy as np
import tensorflow as tf

from examples.slim.networks.layers import (
    EndPoints,
    Layers,
    Tensor,
    channels_of,
    flatten,
    max_pool,
    network,
)


@network(default_image_size=32)
def cifarnet(images: Tensor, num_classes: int | None, layers: Layers) -> tuple[Tensor, EndPoints]:
    """Builds CifarNet: logits [batch, num_classes] or features [batch, 192], and end points."""
    ends: EndPoints = {}
    ends["conv1"] = layers.conv2d("conv1", images, 64, 5)
    ends["pool1"] = max_pool(ends["conv1"], 3, 2)
    ends["norm1"] = local_response_normalization(ends["pool1"])
    ends["conv2"] = layers.conv2d("conv2", ends["norm1"], 64, 5)
    ends["norm2"] = local_response_normalization(ends["conv2"])
    ends["pool2"] = max_pool(ends["norm2"], 3, 2)
    ends["fc3"] = layers.dense("fc3", flatten(ends["pool2"]), 384)
    ends["fc4"] = layers.dense("fc4", layers.dropout(ends["fc3"], 0.5), 192)
    return layers.classified(ends["fc4"], num_classes, ends)


def local_response_normalization(inputs: Tensor) -> Tensor:
    """Divides each channel by (2 + 10⁻⁴ Σ a²)^0.75 over it and two neighbours on each side.

    Krizhevsky et al. (2012), §3.3. A product with a band matrix makes the sums: `tf.nn.lrn` has no
    second derivative, which K-FAC needs where it chooses learning rates by itself.
    """
    channels = np.arange(channels_of(inputs))
    near = np.abs(channels[:, None] - channels) <= 2
    sums = tf.tensordot(tf.square(inputs), near.astype(inputs.dtype.as_numpy_dtype), axes=1)
    return inputs * (2 + 1e-4 * sums) ** -0.75
