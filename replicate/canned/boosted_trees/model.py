"""The model_fn of boosted trees."""

import contextlib
import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple, final

import tensorflow as tf

from model_deploy.devices import CPU
from replicate._types import Nest, Operation, Tensor
from replicate.canned.boosted_trees.ensemble import (
    Ensemble,
    create_ensemble,
    predicted_logits,
)
from replicate.canned.boosted_trees.features import TreeFeatures
from replicate.canned.boosted_trees.observations import Observations, create_boundaries
from replicate.canned.boosted_trees.settings import TreeSettings
from replicate.canned.boosted_trees.summed_trees import SummedTrees
from replicate.canned.boosted_trees.training import StopWhenGrownHook, TrainingStep
from replicate.canned.columns.column_cache import check_features
from replicate.canned.heads.weights import example_weights
from replicate.spec import EstimatorSpec, ModeKeys
from replicate.tower.build import current_build

v1 = tf.compat.v1

SCOPE = "boosted_trees"
"""Scope of the variables."""


@final
@dataclasses.dataclass(frozen=True)
class TreeModel:
    """The model with its settings.

    Attributes:
      head: Head of which `logits_dimension` and `create_estimator_spec` are used.
      features: Features of the trees.
      settings: Settings of the trees.
      weight_column: Weights of examples for quantiles, as heads take it; or None.
    """

    head: Any
    features: TreeFeatures
    settings: TreeSettings
    weight_column: Any

    def model_fn(
        self, features: Mapping[str, Any], labels: Nest, mode: str, config: Any
    ) -> EstimatorSpec:
        """Builds the model.

        Raises:
          ValueError: Features are no dict or one is missing, or there are several towers or workers
            in TRAIN.
        """
        check_features(features)
        if mode != ModeKeys.TRAIN:
            return self.trained(features).spec(labels, mode)
        _check_alone(config)
        with _on_cpu():
            return self._training_spec(features, labels)

    def trained(self, features: Mapping[str, Any]) -> "TrainedTrees":
        """Reads the trees for a mode other than TRAIN, and the features in buckets."""
        with _on_cpu():
            ensemble = create_ensemble(self.head.logits_dimension).read()
            count = self.features.num_numeric
            boundaries = create_boundaries(count).read_value() if count else None
            buckets = self.features.buckets(features, boundaries)
            return TrainedTrees(self.head, features, ensemble, buckets)

    def _training_spec(self, features: Mapping[str, Any], labels: Nest) -> EstimatorSpec:
        settings = self.settings
        variables = create_ensemble(self.head.logits_dimension)
        ensemble = variables.read()
        observations = self._observations(features)
        boundaries = observations.boundaries if observations else None
        buckets = self.features.buckets(features, boundaries)
        if settings.train_in_memory:
            summed = SummedTrees(self.head.logits_dimension)
            found, keep = summed.logits(ensemble, buckets)
        else:
            found, keep = predicted_logits(ensemble, buckets), []
        logits = _as_logits(found, self.head)
        step = TrainingStep(self.features, settings, variables, observations)
        _summarize(ensemble)

        def train_op_fn(loss: Tensor) -> Operation:
            with v1.control_dependencies(keep):
                return step.build(loss, logits, ensemble, buckets)

        spec = self.head.create_estimator_spec(
            features=features,
            mode=ModeKeys.TRAIN,
            logits=logits,
            labels=labels,
            train_op_fn=train_op_fn,
        )
        hooks = [*spec.training_hooks, StopWhenGrownHook(step.status, settings)]
        return spec._replace(training_hooks=hooks)

    def _observations(self, features: Mapping[str, Any]) -> Observations | None:
        count = self.features.num_numeric
        if not count:
            return None
        made = Observations(count, self.settings.num_quantiles, self.settings.n_batches_per_layer)
        values = self.features.numbers(features)
        weights = None
        if self.weight_column is not None:
            weights = example_weights(
                features, self.weight_column, values[:, :1], False, "boosted trees"
            )
        made.set_batch(values, weights)
        return made


class TrainedTrees(NamedTuple):
    """Trees that do not grow, with the features of a batch.

    Attributes:
      head: The head.
      features: The features by key.
      ensemble: The trees.
      buckets: The features in buckets, int32 [batch, features].
    """

    head: Any
    features: Mapping[str, Any]
    ensemble: Ensemble
    buckets: Tensor

    def spec(self, labels: Nest, mode: str) -> EstimatorSpec:
        """Returns what the head makes of the logits, in EVAL or PREDICT."""
        with _on_cpu():
            logits = predicted_logits(self.ensemble, self.buckets)
            return self.head.create_estimator_spec(
                features=self.features,
                mode=mode,
                logits=_as_logits(logits, self.head),
                labels=labels,
                train_op_fn=lambda loss: tf.no_op(),
            )


@contextlib.contextmanager
def _on_cpu() -> Iterator[None]:
    """Places operations on the CPU, which sums in the same order in every run."""
    with v1.device(CPU), v1.variable_scope(SCOPE):
        yield


def _as_logits(found: Tensor, head: Any) -> Tensor:
    found.set_shape([None, head.logits_dimension])
    return tf.stop_gradient(found)


def _check_alone(config: Any) -> None:
    """Raises ValueError unless there is one tower and one worker."""
    build = current_build()
    towers = len(build.calls) if build else 1
    if towers > 1:
        raise ValueError(
            f"Cannot grow boosted trees in {towers} towers: their splits need the whole batch. "
            "Train in one tower: leave out `devices`, train_distribute and replicate_model_fn."
        )
    workers = getattr(config, "num_worker_replicas", 1) or 1
    if workers > 1:
        raise ValueError(
            f"Cannot grow boosted trees with {workers} workers: their splits need the whole batch. "
            "Train in one process, without TF_CONFIG."
        )


def _summarize(ensemble: Ensemble) -> None:
    with v1.name_scope(None), v1.name_scope("boosted_trees/ensemble/"):
        v1.summary.scalar("num_trees", tf.size(ensemble.roots))
        v1.summary.scalar("num_finalized_trees", ensemble.finished_trees)
        v1.summary.scalar("num_attempted_layers", ensemble.attempts)
