"""Training of boosted trees: one step of it, and its end.

A step reads all state, computes the new one, and assigns it at its end. In the first steps only the
quantiles of numeric features are collected, and the global step stands still. Then, if wanted, the
bias is centered. Then each step, or each few, adds a layer of splits.
"""

from typing import Any, NamedTuple, final

import tensorflow as tf

from replicate._types import Operation, Tensor, Variable
from replicate.canned.boosted_trees.ensemble import (
    Ensemble,
    EnsembleVariables,
    assign_growing,
    growing_variable,
    leaves,
)
from replicate.canned.boosted_trees.features import TreeFeatures
from replicate.canned.boosted_trees.growing import with_bias, with_layer
from replicate.canned.boosted_trees.observations import Observations
from replicate.canned.boosted_trees.settings import TreeSettings
from replicate.canned.boosted_trees.splits import best_splits
from replicate.canned.boosted_trees.statistics import bucket_sums, derivatives
from replicate.estimator.hooks.stock import (
    SessionRunArgs,
    SessionRunContext,
    SessionRunHook,
    SessionRunValues,
)

v1 = tf.compat.v1


class Progress(NamedTuple):
    """State of training besides the trees. Its variables are part of checkpoints.

    Attributes:
      batches: Batches since the last layer, int32 scalar.
      needs_bias: True while the bias is being centered.
      bias_steps: Steps of centering that were made, int32 scalar.
      mean: Sums over these batches of the mean gradient and Hessian, float32 [2].
      sums: For each group of features, sums over these batches of `statistics.bucket_sums`.
    """

    batches: Tensor
    needs_bias: Tensor
    bias_steps: Tensor
    mean: Tensor
    sums: tuple[Tensor, ...]


@final
class TrainingStep:
    """The operations of one training step."""

    def __init__(
        self,
        features: TreeFeatures,
        settings: TreeSettings,
        variables: EnsembleVariables,
        observations: Observations | None,
    ):
        """Keeps the parts of the model, and makes the variables of training.

        `observations` collects quantiles; None if there are no numeric features.
        """
        self._groups = features.groups()
        self._settings = settings
        self._variables = variables
        self._observations = observations
        self._progress = self._create_progress()
        self.status: Tensor = None
        """int32 [2], finished trees and attempted layers after the step."""

    def _create_progress(self) -> list[Variable]:
        fixed = {
            "batches": tf.constant(0),
            "center_bias_needed": tf.constant(self._settings.center_bias),
            "bias_steps": tf.constant(0),
            "mean": tf.zeros([2]),
        }
        made = [growing_variable(*each) for each in fixed.items()]
        if self._settings.n_batches_per_layer == 1:
            return made
        empty = tf.zeros([0, 0, 0, 0])
        return made + [growing_variable(f"sums_{i}", empty) for i in range(len(self._groups))]

    def build(self, loss: Tensor, logits: Tensor, ensemble: Ensemble, buckets: Tensor) -> Operation:
        """Returns the operation of a step.

        Args:
          loss: Scalar.
          logits: Logits of which it is computed, [batch, units].
          ensemble: The trees that computed them.
          buckets: Features, int32 [batch, features].
        """
        units = int(logits.shape[-1])
        examples = derivatives(loss, logits, units)
        before = self._read_progress()
        is_ready = self._observations.is_ready if self._observations else tf.constant(True)
        is_unfinished = ensemble.finished_trees < self._settings.n_trees
        trains = tf.logical_and(is_ready, is_unfinished)
        progress = self._with_batch(before, examples, ensemble, buckets, units)
        new, progress = self._updated(trains, ensemble, before, progress, units)
        self.status = tf.stack([new.finished_trees, new.attempts])
        read = [*tf.nest.flatten(ensemble), *tf.nest.flatten(before), loss, *new]
        with v1.control_dependencies(read):
            assigned = self._variables.assign(new)
            flat = [*progress[:4], *(progress.sums if self._sums else ())]
            assigned += assign_growing(self._progress, flat)
            if self._observations:
                assigned.append(self._observations.observe(is_ready))
        step = v1.train.get_global_step()
        with v1.control_dependencies(assigned):
            return v1.assign_add(step, tf.cast(trains, step.dtype.base_dtype)).op

    @property
    def _sums(self) -> list[Variable]:
        return self._progress[4:]

    def _read_progress(self) -> Progress:
        batches, needs_bias, bias_steps, mean = (each.read_value() for each in self._progress[:4])
        sums = tuple(each.read_value() for each in self._sums)
        return Progress(batches, needs_bias, bias_steps, mean, sums)

    def _with_batch(
        self,
        progress: Progress,
        examples: Tensor,
        ensemble: Ensemble,
        buckets: Tensor,
        units: int,
    ) -> Progress:
        """Adds the statistics of a batch."""
        start, end = ensemble.layer
        leaf = leaves(ensemble, buckets, ensemble.roots[-1:])[:, 0]
        node = tf.where(tf.logical_and(leaf >= start, leaf < end), leaf - start, -1)
        found = [bucket_sums(examples, node, end - start, buckets, group) for group in self._groups]
        mean = tf.reduce_mean(examples[:, :2] if units == 1 else tf.zeros([1, 2]), axis=0)
        sums = tuple(found)
        if self._sums:
            sums = tuple(
                tf.cond(progress.batches > 0, lambda a=a, b=b: a + b, lambda b=b: b)
                for a, b in zip(progress.sums, found, strict=True)
            )
            for total, each in zip(sums, found, strict=True):
                total.set_shape(each.shape)
        return progress._replace(batches=progress.batches + 1, mean=progress.mean + mean, sums=sums)

    def _updated(
        self, trains: Tensor, ensemble: Ensemble, before: Progress, progress: Progress, units: int
    ) -> tuple[Ensemble, Progress]:
        """Returns the new trees and progress: those of the step, or the old ones."""
        settings = self._settings
        is_full = progress.batches >= settings.n_batches_per_layer
        scale = 1.0 / tf.cast(progress.batches, tf.float32)

        def centered() -> tuple[Tensor, ...]:
            if units > 1:
                return (*ensemble, False)
            mean = progress.mean * scale
            return (*_flat(with_bias(ensemble, mean, before.bias_steps < 1, settings)),)

        def grown() -> tuple[Tensor, ...]:
            means = [each * scale for each in progress.sums]
            splits = best_splits(means, self._groups, units, settings)
            return (*with_layer(ensemble, splits, settings), False)

        def changed() -> tuple[Tensor, ...]:
            return tf.cond(before.needs_bias, centered, grown)

        has_changed = tf.logical_and(trains, is_full)
        *new, needs_bias = tf.cond(has_changed, changed, lambda: (*ensemble, before.needs_bias))
        centers = tf.logical_and(has_changed, before.needs_bias)
        after = Progress(
            tf.where(has_changed, 0, tf.where(trains, progress.batches, before.batches)),
            needs_bias,
            before.bias_steps + tf.cast(centers, tf.int32),
            tf.where(has_changed, 0.0, tf.where(trains, progress.mean, before.mean)),
            self._kept_sums(trains, before, progress),
        )
        return Ensemble(*new), after

    def _kept_sums(
        self, trains: Tensor, before: Progress, progress: Progress
    ) -> tuple[Tensor, ...]:
        return tuple(
            tf.cond(trains, lambda a=a: a, lambda b=b: b)
            for a, b in zip(progress.sums, before.sums, strict=bool(self._sums))
        )


def _flat(result: tuple[Ensemble, Tensor]) -> tuple[Tensor, ...]:
    ensemble, needs_bias = result
    return (*ensemble, needs_bias)


@final
class StopWhenGrownHook(SessionRunHook):
    """Stops training when all trees are there, or if too few layers could be split."""

    def __init__(self, status: Tensor, settings: TreeSettings):
        """Keeps the finished trees and attempted layers after a step, int32 [2]."""
        self._status = status
        self._settings = settings

    def before_run(self, run_context: SessionRunContext) -> Any:
        """Asks for the state after the step."""
        del run_context
        return SessionRunArgs(self._status)

    def after_run(self, run_context: SessionRunContext, run_values: SessionRunValues) -> None:
        """Compares it with the settings."""
        finished, attempts = run_values.results
        settings = self._settings
        if finished >= settings.n_trees or attempts > 2 * settings.n_trees * settings.max_depth:
            run_context.request_stop()
