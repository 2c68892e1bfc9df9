"""The graph of a training step with K-FAC and towers on GPUs, built on any machine."""

import dataclasses
from typing import Any, NamedTuple

import tensorflow as tf

import kfac
import replicate
from benchmarks.device_traffic.gpu_graphs import gpu_graph
from benchmarks.tower_step.tower_models import mean_cross_entropy
from examples.slim.networks import factory

v1 = tf.compat.v1


@dataclasses.dataclass(frozen=True, kw_only=True)
class Settings:
    """Settings of a training step."""

    network: str = "resnet_v1_50"
    image_size: int = 224
    classes: int = 1000
    batch_per_tower: int = 32
    scale_and_shift: str = "full"


class TrainingStep(NamedTuple):
    """A training step: all operations of its graph, in order of creation, and those it runs."""

    operations: list[Any]
    fetches: list[Any]
    optimizer: kfac.PeriodicInvCovUpdateKfacOpt
    variables: list[Any]


def build(settings: Settings, towers: int) -> TrainingStep:
    """Builds a training step: statistics in each step, inverses in every tenth."""
    made: list[kfac.PeriodicInvCovUpdateKfacOpt] = []

    def make_optimizer() -> kfac.PeriodicInvCovUpdateKfacOpt:
        made.append(
            kfac.PeriodicInvCovUpdateKfacOpt(
                layer_collection=kfac.graph_layer_collection(),
                learning_rate=0.01,
                damping=0.03,
                momentum_type="regular",
                invert_every=10,
            )
        )
        return made[-1]

    def model_fn(features: Any, labels: Any, mode: str) -> replicate.EstimatorSpec:
        loss = _registered_loss(settings, features, labels)
        optimizer = replicate.TowerOptimizer(make_optimizer)
        train_op = optimizer.minimize(loss, v1.train.get_global_step())
        return replicate.EstimatorSpec(mode, loss=loss, train_op=train_op)

    devices = [f"/gpu:{index}" for index in range(towers)]
    with gpu_graph(towers) as graph:
        replicated = replicate.replicate_model_fn(model_fn, v1.losses.Reduction.MEAN, devices)
        spec = replicated(*_batch(settings, towers), replicate.ModeKeys.TRAIN)
        return TrainingStep(
            operations=graph.get_operations(),
            fetches=[spec.train_op, spec.loss.op],
            optimizer=made[-1],
            variables=v1.trainable_variables(),
        )


def _registered_loss(settings: Settings, images: Any, labels: Any) -> Any:
    """Returns the mean loss of a tower, with its layers registered."""
    network = factory.get_network_fn(settings.network, settings.classes, is_training=True)
    logits, _ = network(images)
    layers = kfac.graph_layer_collection()
    layers.set_default_scale_and_shift_approximation(settings.scale_and_shift)
    layers.register_categorical_predictive_distribution(logits, name="logits")
    layers.auto_register_layers()
    return mean_cross_entropy(logits, labels)


def _batch(settings: Settings, towers: int) -> tuple[Any, Any]:
    """Returns images and labels of all towers, on the CPU."""
    rows, side = settings.batch_per_tower * towers, settings.image_size
    with v1.device("/cpu:0"):
        images = v1.placeholder(tf.float32, [rows, side, side, 3], "images")
        return images, v1.placeholder(tf.int32, [rows], "labels")
