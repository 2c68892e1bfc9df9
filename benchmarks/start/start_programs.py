"""The start of a residual network with momentum SGD or K-FAC, on towers: built and measured.

Runs with this K-FAC and, without towers, with tensorflow/kfac.
"""

import time
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

import kfac
import replicate
from benchmarks import harness, rivals
from benchmarks.kfac_step.residual_networks import (
    NETWORKS,
    make_kfac,
    mean_loss,
    random_images,
    registered_logits,
)

v1 = tf.compat.v1


def build(
    network: str,
    optimizer: str,
    devices: Sequence[str],
    curvature_share: float = 1.0,
    **spread: bool,
) -> Any:
    """Builds a training program in the default graph; returns the operation that trains.

    With one device, it has no towers. `curvature_share` is the share of the images that averages
    are made of, `spread` are further settings of K-FAC.
    """
    v1.train.create_global_step()
    chosen = NETWORKS[network]
    images = random_images(chosen, chosen.batch_size)
    theirs = kfac.LayerCollection() if rivals.is_here() else None

    def layers() -> kfac.LayerCollection:
        return kfac.graph_layer_collection() if theirs is None else theirs

    def make_optimizer() -> Any:
        if optimizer == "momentum":
            return v1.train.MomentumOptimizer(1e-3, 0.9)
        return make_kfac(layers(), **spread)

    def loss_of(features: Any) -> Any:
        if optimizer == "momentum":
            return mean_loss(chosen.logits(features))
        return mean_loss(registered_logits(chosen, features, layers(), curvature_share))

    if len(devices) == 1:
        loss = loss_of(images)  # tensorflow/kfac reads the registered layers when it is made.
        return make_optimizer().minimize(loss, v1.train.get_global_step())

    def model_fn(features: Any, mode: str) -> replicate.EstimatorSpec:
        loss = loss_of(features)
        chosen_optimizer = replicate.TowerOptimizer(make_optimizer)
        train_op = chosen_optimizer.minimize(loss, v1.train.get_global_step())
        return replicate.EstimatorSpec(mode, loss=loss, train_op=train_op)

    replicated = replicate.replicate_model_fn(model_fn, devices=devices)
    return replicated(images, None, replicate.ModeKeys.TRAIN).train_op


def measure(build: Callable[[], Any]) -> dict[str, float]:
    """Builds a program in a new graph, initializes its variables and runs a step.

    Args:
      build: Builds the program in the default graph; returns its training operation.

    Returns:
      "build", "initialize" and "first step" in seconds; "processor", the seconds that all of them
      took of all cores, which other load on the machine changes less; "operations" of the graph
      and, as "in functions", of its functions; "build MB", by which the peak memory of the process
      grew while the graph was built.
    """
    with tf.Graph().as_default(), v1.Session() as session:
        session.run(tf.constant(0))  # One-time work of TensorFlow.
    before = harness.peak_bytes()
    processor = time.process_time()
    clock = [time.perf_counter()]
    with tf.Graph().as_default() as graph:
        v1.set_random_seed(1)
        train = build()
        initializer = v1.global_variables_initializer()
        clock.append(time.perf_counter())
        grown = harness.peak_bytes() - before
        with v1.Session(graph=graph) as session:
            for operation in (initializer, train):
                session.run(operation)
                clock.append(time.perf_counter())
            processor = time.process_time() - processor
        definition = graph.as_graph_def()
    started, built, initialized, trained = clock
    return {
        "build": built - started,
        "initialize": initialized - built,
        "first step": trained - initialized,
        "processor": processor,
        "operations": len(definition.node),
        "in functions": sum(len(function.node_def) for function in definition.library.function),
        "build MB": grown / 1e6,
    }
