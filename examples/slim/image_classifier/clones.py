"""The clones of a classifier: each takes its share of the batch through the network.

Owns the split of a batch, the call of the network, and the losses. `training.py` and
`evaluation.py` build on the clones; devices are `model_deploy`'s business.
"""

import dataclasses
import itertools
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import tensorflow as tf

import model_deploy
from examples.slim.image_classifier.data_flags import FlagError
from examples.slim.networks import factory

v1 = tf.compat.v1
Tensor = Any

AUXILIARY_END_POINT = "AuxLogits"
AUXILIARY_WEIGHT = 0.4

LOSS_SCOPES: Mapping[str, str] = MappingProxyType(
    {"logits": "softmax_cross_entropy_loss", "aux_logits": "aux_loss"}
)
"""Name of the logits -> name scope of their loss; slim's, for its tags of summaries."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Network:
    """Name of a network and the settings of its construction.

    Attributes:
      model_name: A name of `examples.slim.networks`.
      num_classes: Outputs of it.
      weight_decay: Strength of the penalty on its weights.
      label_smoothing: Probability that the targets of the loss spread over all classes.
    """

    model_name: str
    num_classes: int
    weight_decay: float = 0.0
    label_smoothing: float = 0.0


class Outputs(NamedTuple):
    """Logits [batch, classes] and activations by name, for a share of the batch."""

    logits: Tensor
    end_points: Mapping[str, Tensor]


def create(
    network: Network,
    deployment: model_deploy.DeploymentConfig,
    images: Tensor,
    labels: Tensor,
    is_training: bool,
) -> list[model_deploy.Clone]:
    """Builds the clones; in training they leave their losses in the collection LOSSES.

    Args:
      network: The network to build.
      deployment: Number and devices of the clones.
      images: [batch, height, width, channels], for all clones together.
      labels: Class numbers, [batch].
      is_training: True: build the losses, and the network as for training.

    Returns:
      The clones, whose outputs are `Outputs`.

    Raises:
      FlagError: The images do not fit the network.
      ValueError: There is no such network.
    """
    network_fn = factory.get_network_fn(
        network.model_name, network.num_classes, network.weight_decay, is_training
    )
    with v1.device(deployment.inputs_device()):
        shares = iter(split(images, labels, deployment.num_clones))

    def clone_fn() -> Outputs:
        own_images, own_labels = next(shares)
        outputs = _applied(network_fn, own_images)
        if is_training:
            one_hot = tf.one_hot(own_labels, network.num_classes)
            for name, (logits, weight) in weighted_logits(outputs).items():
                v1.losses.softmax_cross_entropy(
                    one_hot, logits, weight, network.label_smoothing, scope=LOSS_SCOPES[name]
                )
        return outputs

    return model_deploy.create_clones(deployment, clone_fn)


def weighted_logits(outputs: Outputs) -> dict[str, tuple[Tensor, float]]:
    """Returns the logits that are trained, each with the weight of its loss, by name."""
    heads = {"logits": (outputs.logits, 1.0)}
    if AUXILIARY_END_POINT in outputs.end_points:
        heads["aux_logits"] = (outputs.end_points[AUXILIARY_END_POINT], AUXILIARY_WEIGHT)
    return heads


def split(images: Tensor, labels: Tensor, num_clones: int) -> list[tuple[Tensor, Tensor]]:
    """Splits a batch into shares, (images, labels), that differ by one row at most.

    Together they are the batch, in order. With fewer rows than shares some are empty.
    """
    rows = images.shape[0]
    if rows is None:
        rows = tf.shape(images)[0]
    bounds = [rows * index // num_clones for index in range(num_clones + 1)]
    return [(images[start:end], labels[start:end]) for start, end in itertools.pairwise(bounds)]


def _applied(network_fn: Callable[[Tensor], Any], images: Tensor) -> Outputs:
    try:
        return Outputs(*network_fn(images))
    except ValueError as error:
        raise FlagError(
            f"The network does not fit images of {images.shape[1:]}: {error}"
        ) from error
