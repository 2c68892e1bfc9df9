"""The model_fn of K-means.

On towers, each finds the nearest centers of its part of the batch. The last one chooses the first
centers from all parts, and moves the centers by the sums of all towers.
"""

import contextlib
import dataclasses
import typing
from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf

from replicate._types import Nest, Tensor, Variable
from replicate.canned.kmeans.centers import (
    TrainedVariables,
    create_clusters,
    create_trained_variables,
)
from replicate.canned.kmeans.distances import all_distances, nearest_centers, normalized_for
from replicate.canned.kmeans.hooks import InitializationHook, RelativeChangeHook
from replicate.canned.kmeans.initialization import build_initialization
from replicate.canned.kmeans.settings import KMeansSettings
from replicate.canned.kmeans.steps import CenterMoves, cluster_sums
from replicate.export import PredictOutput
from replicate.gradients.tower_optimizer import TowerOptimizer
from replicate.graph_ops.checks import batch_check
from replicate.spec import EstimatorSpec, ModeKeys
from replicate.tower.build import TowerBuild, current_build

v1 = tf.compat.v1

SCORE = "score"
CLUSTER_INDEX = "cluster_index"
ALL_DISTANCES = "all_distances"


@dataclasses.dataclass(frozen=True)
class _Batch:
    """Points [N, k] and losses, scalars, of the towers of a batch that have been built."""

    points: list[Tensor] = dataclasses.field(default_factory=list)
    losses: list[Tensor] = dataclasses.field(default_factory=list)


@typing.final
class KMeansModel:
    """The model with its settings."""

    def __init__(self, settings: KMeansSettings):
        self._settings = settings

    def model_fn(self, features: Nest, mode: str, config: Any) -> EstimatorSpec:
        """Builds the model, or one tower of it, from features as `points_of` takes them.

        Returns:
          A spec with the loss (sum over the points of the distance to the nearest center), the
          metric "score" (mean of the loss over batches) and the predictions.
        """
        settings = self._settings
        raw = points_of(features, settings.feature_columns)
        points = normalized_for(settings, raw)
        size = _size(points)
        clusters = create_clusters()
        centers = normalized_for(settings, _read(clusters, settings.num_clusters, size))
        nearest = nearest_centers(points, centers, settings)
        loss = tf.reduce_sum(nearest.distances)
        predictions = {
            ALL_DISTANCES: all_distances(points, centers, settings),
            CLUSTER_INDEX: nearest.indices,
        }
        if mode == ModeKeys.PREDICT:
            return EstimatorSpec(mode, predictions, export_outputs=_exports(predictions))
        build = current_build()
        if mode == ModeKeys.EVAL:
            # The sum over towers of this mean is the mean over batches of the whole loss.
            towers = len(build.calls) if build else 1
            score = v1.metrics.mean(loss * float(towers))
            return EstimatorSpec(mode, predictions, loss, eval_metric_ops={SCORE: score})
        variables = create_trained_variables(clusters, settings)
        optimizer = TowerOptimizer(CenterMoves(clusters, variables, settings))
        sums = cluster_sums(points, nearest.indices, settings.num_clusters)
        train_op = optimizer.apply_gradients([(sums, clusters)], v1.train.get_global_step())
        hooks = _hooks(raw, loss, clusters, variables, settings, build, config)
        return EstimatorSpec(mode, predictions, loss, train_op, training_hooks=hooks)


def _read(clusters: Variable, num_clusters: int, size: int | None) -> Tensor:
    """Returns the centers, [num_clusters, size]; in a session, fails if they are not there yet."""
    centers = clusters.read_value()
    text = (
        "KMeansClustering: the model has no centers, or centers of another number or size: their "
        "shape is {}. Train first, or correct model_dir, num_clusters or the features."
    )
    shape = tf.shape(centers)
    is_matrix = tf.equal(tf.size(shape), 2)
    fits = tf.reduce_all(tf.equal(shape[-1:], size)) if size else True
    has_all = tf.logical_and(is_matrix, tf.reduce_all(tf.equal(shape[:1], num_clusters)))
    with v1.control_dependencies([batch_check(tf.logical_and(has_all, fits), text, shape)]):
        centers = tf.identity(centers)
    centers.set_shape([num_clusters, size])
    return centers


def _size(points: Tensor) -> int | None:
    """Returns the numbers in a point, None if that is not known before a session runs."""
    return None if points.shape.rank is None else points.shape.as_list()[1]


def _exports(predictions: dict[str, Tensor]) -> dict[str, PredictOutput]:
    outputs = {name: PredictOutput(value) for name, value in predictions.items()}
    default = tf.saved_model.DEFAULT_SERVING_SIGNATURE_DEF_KEY
    return {**outputs, default: outputs[CLUSTER_INDEX]}


def _hooks(
    points: Tensor,
    loss: Tensor,
    clusters: Variable,
    variables: TrainedVariables,
    settings: KMeansSettings,
    build: TowerBuild | None,
    config: Any,
) -> list[Any]:
    """Returns the hooks of training; none before the last tower, which has the whole batch."""
    batch = build.shared(_Batch) if build else _Batch()
    batch.points.append(points)
    batch.losses.append(loss)
    if build is not None and build.tower is not None and not build.tower.is_last:
        return []
    with build.outside_towers() if build else contextlib.nullcontext():
        total = tf.add_n(batch.losses)
        v1.summary.scalar("loss/raw", total)
        operations = build_initialization(
            tf.concat(batch.points, axis=0), clusters, variables, settings
        )
    is_chief = config is None or config.is_chief
    hooks = [InitializationHook(operations, settings.num_clusters, _size(points), is_chief)]
    if settings.relative_tolerance is None:
        return hooks
    return [*hooks, RelativeChangeHook(total, settings.relative_tolerance)]


def points_of(features: Nest, feature_columns: Sequence[Any] | None = None) -> Tensor:
    """Returns the points of a batch as a matrix.

    Args:
      features: Numbers [N, k]; or a dict of such features, in which [N] stands for [N, 1].
      feature_columns: Columns of a dict that make the points. None: all features of a dict, side by
        side in the order of their keys.

    Returns:
      float32 Tensor [N, k].

    Raises:
      ValueError: A feature is not a matrix, is sparse, or belongs to another graph; or a dict is
        empty.
    """
    if not isinstance(features, Mapping):
        return _matrix(features, "features", expand=False)
    for key, value in features.items():
        _check_graph(value, _named(key))
    if feature_columns is not None:
        return v1.feature_column.input_layer(features, feature_columns)
    if not features:
        raise ValueError("KMeansClustering: the dict of features is empty. Return at least one.")
    return tf.concat([_matrix(features[key], _named(key)) for key in sorted(features)], axis=1)


def _named(key: str) -> str:
    return f"feature {key!r}"


def _matrix(value: Any, name: str, expand: bool = True) -> Tensor:
    """Returns a feature as a float32 matrix; `expand` makes a column of a vector."""
    if isinstance(value, tf.SparseTensor | tf.RaggedTensor):
        raise ValueError(
            f"KMeansClustering: {name} is a {type(value).__name__}, and a point needs all its "
            "numbers. Pass feature_columns, or make it dense with tf.sparse.to_dense or to_tensor."
        )
    _check_graph(value, name)
    tensor = tf.convert_to_tensor(value)
    if not (tensor.dtype.is_floating or tensor.dtype.is_integer):
        raise ValueError(
            f"KMeansClustering: {name} must hold numbers, got {tensor.dtype.name}. Pass "
            "feature_columns that turn it into numbers."
        )
    if expand and tensor.shape.rank == 1:
        tensor = tensor[:, tf.newaxis]
    if tensor.shape.rank not in (None, 2):
        raise ValueError(
            f"KMeansClustering: {name} must have a row for each point, [N, k], got shape "
            f"{tensor.shape}. Reshape it in input_fn."
        )
    return tf.cast(tensor, tf.float32)


def _check_graph(value: Any, name: str) -> None:
    """Raises unless a Tensor belongs to the default graph."""
    if not isinstance(value, tf.Tensor):
        return
    if getattr(value, "graph", None) is not v1.get_default_graph():
        raise ValueError(
            f"KMeansClustering: {name} is a Tensor that was made outside of the graph of the "
            "model. Make it inside of input_fn, which each call of train calls anew."
        )
