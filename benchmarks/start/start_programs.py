"""Training programs of the benchmark: a residual network with momentum SGD or K-FAC, on towers."""

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

import kfac
import replicate
from benchmarks.resnet_kfac.residual_networks import NETWORKS, random_images
from benchmarks.resnet_kfac.step_times import make_kfac, register
from benchmarks.rivals.resnets import mean_loss

v1 = tf.compat.v1


def build(network: str, optimizer: str, devices: Sequence[str], *, spread_inverses: bool) -> Any:
    """Builds a training program in the default graph; returns the operation that trains.

    With one device, it has no towers. `spread_inverses` computes the inverses one by one after the
    first step.
    """
    v1.train.create_global_step()
    chosen = NETWORKS[network]
    images = random_images(chosen, chosen.batch_size)

    def make_optimizer() -> Any:
        if optimizer == "momentum":
            return v1.train.MomentumOptimizer(1e-3, 0.9)
        return make_kfac(kfac.graph_layer_collection(), spread_inverses=spread_inverses)

    def model_fn(features: Any, mode: str) -> replicate.EstimatorSpec:
        logits = chosen.logits(features)
        if optimizer != "momentum":
            register(kfac.graph_layer_collection(), logits)
        loss = mean_loss(logits)
        chosen_optimizer = replicate.TowerOptimizer(make_optimizer)
        train_op = chosen_optimizer.minimize(loss, v1.train.get_global_step())
        return replicate.EstimatorSpec(mode, loss=loss, train_op=train_op)

    if len(devices) > 1:
        replicated = replicate.replicate_model_fn(model_fn, devices=devices)
        return replicated(images, None, replicate.ModeKeys.TRAIN).train_op
    logits = chosen.logits(images)
    if optimizer != "momentum":
        register(kfac.graph_layer_collection(), logits)
    return make_optimizer().minimize(mean_loss(logits), v1.train.get_global_step())
