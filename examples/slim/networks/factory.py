"""Networks by name, for programs whose flags name one.

Owns the table of networks. Each network has its own module; `layers` has their common layers.
"""

import functools
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from examples.slim.networks import cifarnet, inception_v3, lenet, mobilenet_v1, resnet, vgg
from examples.slim.networks.layers import EndPoints, Layers, Network, Tensor

NETWORKS: Mapping[str, Network] = MappingProxyType(
    {
        function.__name__: function
        for function in (
            cifarnet.cifarnet,
            inception_v3.inception_v3,
            lenet.lenet,
            mobilenet_v1.mobilenet_v1,
            resnet.resnet_v1_18,
            resnet.resnet_v1_34,
            resnet.resnet_v1_50,
            resnet.resnet_v2_18,
            resnet.resnet_v2_34,
            resnet.resnet_v2_50,
            vgg.vgg_11,
            vgg.vgg_16,
        )
    }
)
"""Each network by its name, which is also the first part of the names of its variables."""


def get_network_fn(
    name: str, num_classes: int | None, weight_decay: float = 0.0, is_training: bool = False
) -> Callable[..., tuple[Tensor, EndPoints]]:
    """Returns the function that builds a network.

    Args:
      name: One of `NETWORKS`.
      num_classes: 0 or None leaves the logits out.
      weight_decay: As in `Layers`.
      is_training: Likewise.

    Returns:
      `network_fn(images, **settings) -> (logits, end_points)` with the network's name and its
      `default_image_size`. Images are float32 [batch, height, width, channels], settings those of
      `Layers` that are not set here. Logits are [batch, num_classes]; without classes it returns
      the features that they are made of, [batch, n]. End points are tensors by name: layers or
      blocks, `PreLogits` (the features), and with classes `Logits`, `Predictions` (probabilities)
      and, of a network with an auxiliary head, `AuxLogits`.

    Raises:
      ValueError: There is no such network.
    """
    if name not in NETWORKS:
        raise ValueError(
            f"get_network_fn: there is no network {name!r}; take one of {', '.join(NETWORKS)}."
        )
    network = NETWORKS[name]

    @functools.wraps(network)
    def network_fn(images: Tensor, **settings: Any) -> tuple[Tensor, EndPoints]:
        layers = Layers(is_training=is_training, weight_decay=weight_decay, **settings)
        return network(images, num_classes, layers)

    return network_fn
