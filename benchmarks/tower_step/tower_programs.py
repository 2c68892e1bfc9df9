"""Four ways of training a model: one tower, replicated, towers by hand, `MirroredStrategy`.

The data stay in memory, so only the step is timed and not its input. The models are in
`tower_models`.
"""

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
import tensorflow as tf

import replicate
from benchmarks import harness
from benchmarks.session_programs import SessionProgram
from benchmarks.tower_step import WAYS
from benchmarks.tower_step.tower_models import Model, Parameters
from model_deploy import GradientReduction

v1 = tf.compat.v1

RATE = 0.01
MOMENTUM = 0.9


Build: TypeAlias = Callable[[Model, Sequence[str], Any, Any], Any]
"""Function of model, devices, features and labels that returns a train op."""


class GraphProgram(SessionProgram):
    """Train op in its own graph and session, on the logical devices of this process."""

    def __init__(self, model: Model, devices: Sequence[str], build: Build) -> None:
        """Builds the graph and initializes the variables."""
        super().__init__(lambda: build(model, devices, *read_batch(model)))

    def parameters(self) -> list[np.ndarray]:
        """Returns the trained values, in order of creation."""
        with self.graph.as_default():
            values: list[np.ndarray] = self.session.run(v1.trainable_variables())
        return values


def read_batch(model: Model) -> tuple[Any, Any]:
    """Returns features and labels, read from variables, which prevents constant folding."""
    features, labels = (
        v1.get_variable(name, initializer=array, trainable=False).read_value()
        for name, array in zip(("features", "labels"), model.batch, strict=True)
    )
    return features, labels


def get_variables(model: Model) -> Parameters:
    """Returns the variables of a model in the current scope. Creates them if they do not exist."""
    return {n: v1.get_variable(n, initializer=value) for n, value in model.parameters.items()}


def one_tower(model: Model, devices: Sequence[str], features: Any, labels: Any) -> Any:
    """Trains on the whole batch on the first device."""
    with v1.device(devices[0]):
        return _optimizer().minimize(model.loss(get_variables(model), features, labels))


def replicated(
    model: Model,
    devices: Sequence[str],
    features: Any,
    labels: Any,
    reduction: GradientReduction = "last",
) -> Any:
    """Trains with `replicate_model_fn` and `TowerOptimizer`."""

    def model_fn(features: Any, labels: Any, mode: str) -> Any:
        loss = model.loss(get_variables(model), features, labels)
        train_op = replicate.TowerOptimizer(_optimizer).minimize(loss)
        return replicate.EstimatorSpec(mode, loss=loss, train_op=train_op)

    model_fn = replicate.replicate_model_fn(
        model_fn, v1.losses.Reduction.MEAN, devices, reduction=reduction
    )
    return model_fn(features, labels, replicate.ModeKeys.TRAIN).train_op


def by_hand(model: Model, devices: Sequence[str], features: Any, labels: Any) -> Any:
    """Trains in a loop over the devices, as in multi-GPU programs of TensorFlow 1.

    Sums of sparse gradients are dense here. Batch normalization uses the first tower's statistics.
    """
    optimizer = _optimizer()
    with v1.device(devices[0]):
        shards = zip(tf.split(features, len(devices)), tf.split(labels, len(devices)), strict=True)
    towers: list[Any] = []
    updates: list[Any] = []
    for index, (device, shard) in enumerate(zip(devices, shards, strict=True)):
        with v1.device(device), v1.variable_scope("model", reuse=index > 0):
            loss = model.loss(get_variables(model), *shard)
            towers.append(optimizer.compute_gradients(loss))
            updates = updates or v1.get_collection(v1.GraphKeys.UPDATE_OPS)
    with v1.device(devices[0]), v1.control_dependencies(updates):
        averages = [
            (v1.add_n([gradient for gradient, _ in pairs]) / len(devices), pairs[0][1])
            for pairs in zip(*towers, strict=True)
        ]
        return optimizer.apply_gradients(averages)


class MirroredProgram:
    """Custom training loop with `tf.distribute.MirroredStrategy` and one `tf.function`."""

    def __init__(self, model: Model, devices: Sequence[str], cross_device_ops: Any = None) -> None:
        """Creates the variables. The first step traces the function.

        Args:
          model: Model to train.
          devices: Device of each replica.
          cross_device_ops: Argument of `MirroredStrategy`. Its default on GPUs is NCCL, which needs
            a GPU for each replica.
        """
        self._strategy = tf.distribute.MirroredStrategy(devices, cross_device_ops)
        with self._strategy.scope():
            self._parameters = {n: tf.Variable(value) for n, value in model.parameters.items()}
            self._velocities = [
                tf.Variable(tf.zeros_like(value)) for value in self._parameters.values()
            ]
        self._shard = tuple(self._distributed(array, len(devices)) for array in model.batch)
        self._model = model
        self._step = tf.function(self._make_step)

    def run(self, steps: int) -> float:
        """Runs some steps and returns the mean seconds per step.

        A call may return while GPUs still compute, so the time ends when they have finished.
        """
        finish = tf.test.experimental.sync_devices
        return harness.mean_seconds(lambda: self._step(*self._shard), steps, finish)

    def parameters(self) -> list[np.ndarray]:
        """Returns the trained values."""
        return [variable.numpy() for variable in self._parameters.values()]

    def _distributed(self, array: np.ndarray, count: int) -> Any:
        parts = np.split(array, count)
        return self._strategy.experimental_distribute_values_from_function(
            lambda context: tf.constant(parts[context.replica_id_in_sync_group])
        )

    def _make_step(self, features: Any, labels: Any) -> None:
        self._strategy.run(self._replica_step, (features, labels))

    def _replica_step(self, features: Any, labels: Any) -> None:
        variables = list(self._parameters.values())
        with tf.GradientTape() as tape:
            loss = self._model.loss(self._parameters, features, labels)
            loss /= self._strategy.num_replicas_in_sync
        gradients = tape.gradient(loss, variables)
        tf.distribute.get_replica_context().merge_call(self._apply, gradients)

    def _apply(self, strategy: Any, *gradients: Any) -> None:
        variables = list(self._parameters.values())
        pairs = list(zip(gradients, variables, strict=True))
        sums = strategy.extended.batch_reduce_to(tf.distribute.ReduceOp.SUM, pairs)
        for variable, velocity, total in zip(variables, self._velocities, sums, strict=True):
            strategy.extended.update(variable, _momentum_step, (velocity, total))


def all_ways(
    model: Model, devices: Sequence[str], cross_device_ops: Any = None
) -> dict[str, GraphProgram | MirroredProgram]:
    """Returns a program for each of `WAYS`. A process can do this once."""
    builds = (replicated, by_hand, one_tower)
    graphs = [GraphProgram(model, devices, build) for build in builds]
    mirrored = MirroredProgram(model, devices, cross_device_ops)
    return dict(zip(WAYS, (*graphs, mirrored), strict=True))


def _momentum_step(variable: Any, velocity: Any, gradient: Any) -> None:
    given = {"var": variable.handle, "accum": velocity.handle, "lr": RATE, "momentum": MOMENTUM}
    if isinstance(gradient, tf.IndexedSlices):
        rows, positions = tf.unique(gradient.indices)
        totals = tf.math.unsorted_segment_sum(gradient.values, positions, tf.size(rows))
        tf.raw_ops.ResourceSparseApplyMomentum(grad=totals, indices=rows, **given)
    else:
        tf.raw_ops.ResourceApplyMomentum(grad=gradient, **given)


def _optimizer() -> Any:
    return v1.train.MomentumOptimizer(RATE, MOMENTUM)
