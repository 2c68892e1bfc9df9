"""Training programs of the benchmark: a residual network with momentum SGD or K-FAC, on towers."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import tensorflow as tf

import kfac
import replicate
from benchmarks.resnet_kfac.residual_networks import NETWORKS, random_images
from benchmarks.resnet_kfac.step_times import make_kfac, registered_logits
from benchmarks.rivals.resnets import mean_loss

v1 = tf.compat.v1


class Curvature(NamedTuple):
    """Settings of K-FAC's curvature.

    Attributes:
      spread_inverses: True to compute the inverses in shares after the first step.
      spread_first_inverses: True to compute them in shares from the first step on.
      share: Share of the images that averages are made of.
    """

    spread_inverses: bool
    spread_first_inverses: bool
    share: float


def build(network: str, optimizer: str, devices: Sequence[str], curvature: Curvature) -> Any:
    """Builds a training program in the default graph; returns the operation that trains.

    With one device, it has no towers.
    """
    v1.train.create_global_step()
    chosen = NETWORKS[network]
    images = random_images(chosen, chosen.batch_size)

    def make_optimizer() -> Any:
        if optimizer == "momentum":
            return v1.train.MomentumOptimizer(1e-3, 0.9)
        return make_kfac(
            kfac.graph_layer_collection(),
            spread_inverses=curvature.spread_inverses,
            spread_first_inverses=curvature.spread_first_inverses,
        )

    def loss_of(features: Any) -> Any:
        if optimizer == "momentum":
            return mean_loss(chosen.logits(features))
        layers = kfac.graph_layer_collection()
        return mean_loss(registered_logits(chosen, features, layers, curvature.share))

    def model_fn(features: Any, mode: str) -> replicate.EstimatorSpec:
        loss = loss_of(features)
        chosen_optimizer = replicate.TowerOptimizer(make_optimizer)
        train_op = chosen_optimizer.minimize(loss, v1.train.get_global_step())
        return replicate.EstimatorSpec(mode, loss=loss, train_op=train_op)

    if len(devices) > 1:
        replicated = replicate.replicate_model_fn(model_fn, devices=devices)
        return replicated(images, None, replicate.ModeKeys.TRAIN).train_op
    return make_optimizer().minimize(loss_of(images), v1.train.get_global_step())
