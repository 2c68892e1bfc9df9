"""The residual networks of the benchmarks, by name.

References:
  He, Zhang, Ren & Sun (2015), "Deep Residual Learning for Image Recognition", arXiv 1512.03385,
  table 1 (ResNet-50).
"""

import functools
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from benchmarks.rivals import resnets
from examples.slim.networks import factory


class Network(NamedTuple):
    """A network of images [batch, side, side, 3], their usual side, and a batch size."""

    logits: Callable[[Any], Any]
    side: int
    batch_size: int


def resnet_50(images: Any) -> Any:
    """Returns the logits [batch, classes] of ResNet-50."""
    return factory.get_network_fn("resnet_v1_50", resnets.CLASSES, is_training=True)(images)[0]


NETWORKS: Mapping[str, Network] = {
    **{
        name: Network(functools.partial(resnets.logits, units=units), resnets.SIDE, batch_size=128)
        for name, units in resnets.UNITS.items()
    },
    "resnet50": Network(resnet_50, side=64, batch_size=256),
}
"""The networks by name."""


def random_images(network: Network, batch_size: int) -> Any:
    """Returns the same random images in each run, [batch_size, side, side, 3]."""
    return resnets.random_images(batch_size, network.side)
