"""Settings of K-means, checked once and handed to all parts of the model."""

import dataclasses
import operator
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
import tensorflow as tf

from replicate._types import Tensor

SQUARED_EUCLIDEAN_DISTANCE = "squared_euclidean"
COSINE_DISTANCE = "cosine"
RANDOM_INIT = "random"
KMEANS_PLUS_PLUS_INIT = "kmeans_plus_plus"

DISTANCES = (SQUARED_EUCLIDEAN_DISTANCE, COSINE_DISTANCE)
INITIALIZATIONS = (RANDOM_INIT, KMEANS_PLUS_PLUS_INIT)

ChooseCenters: TypeAlias = Callable[[list[Tensor], Tensor], Tensor]
"""fn(list of points [N, k], number of missing centers) → up to that many centers, [M, k]."""


@dataclasses.dataclass(frozen=True)
class KMeansSettings:
    """Settings of the model, as `KMeansClustering` takes them.

    For full batches `steps_per_iteration` is 1. Without feature columns, all features count.
    """

    num_clusters: int
    initial_clusters: str | np.ndarray | ChooseCenters = RANDOM_INIT
    distance_metric: str = SQUARED_EUCLIDEAN_DISTANCE
    seed: int | None = None
    use_mini_batch: bool = True
    steps_per_iteration: int = 1
    num_retries: int = 2
    relative_tolerance: float | None = None
    feature_columns: Sequence[Any] | None = None

    @property
    def is_cosine(self) -> bool:
        """True if points and centers have norm 1."""
        return self.distance_metric == COSINE_DISTANCE


def kmeans_settings(
    num_clusters: Any,
    initial_clusters: Any,
    distance_metric: str,
    seed: int | None,
    use_mini_batch: bool,
    mini_batch_steps_per_iteration: int,
    kmeans_plus_plus_num_retries: int,
    relative_tolerance: float | None,
    feature_columns: Any,
) -> KMeansSettings:
    """Checks the arguments of `KMeansClustering` and returns them as settings.

    Raises:
      ValueError: An argument is out of range or of an unknown kind.
    """
    if distance_metric not in DISTANCES:
        raise ValueError(
            f"KMeansClustering: distance_metric must be one of {_listed(DISTANCES)}; got "
            f"{distance_metric!r}."
        )
    initial = _checked_initial_clusters(initial_clusters)
    if isinstance(initial, np.ndarray):
        num_clusters = len(initial)
    steps = _at_least_1("mini_batch_steps_per_iteration", mini_batch_steps_per_iteration)
    return KMeansSettings(
        num_clusters=_at_least_1("num_clusters", num_clusters),
        initial_clusters=initial,
        distance_metric=distance_metric,
        seed=seed,
        use_mini_batch=bool(use_mini_batch),
        steps_per_iteration=steps if use_mini_batch else 1,
        num_retries=kmeans_plus_plus_num_retries,
        relative_tolerance=relative_tolerance,
        feature_columns=list(feature_columns or ()) or None,
    )


def _checked_initial_clusters(given: Any) -> str | np.ndarray | ChooseCenters:
    """Returns the name, the function, or the centers as an array."""
    if isinstance(given, str):
        if given not in INITIALIZATIONS:
            raise ValueError(
                f"KMeansClustering: initial_clusters must be one of {_listed(INITIALIZATIONS)}, an "
                f"array or a function; got {given!r}."
            )
        return given
    if callable(given):
        return given
    if isinstance(given, tf.Tensor) and hasattr(given, "graph"):
        raise ValueError(
            f"KMeansClustering: initial_clusters is a Tensor of a graph, {given.name!r}, and each "
            "call of train builds a graph of its own. Pass an array, or a function f(inputs, k) "
            "that makes the Tensor."
        )
    centers = np.asarray(given, np.float32)
    if centers.ndim != 2 or 0 in centers.shape:
        raise ValueError(
            "KMeansClustering: initial_clusters must be an array with a row for each center, got "
            f"shape {list(centers.shape)}. Pass an array [num_clusters, numbers in a point]."
        )
    return centers


def _at_least_1(name: str, value: Any) -> int:
    try:
        number = operator.index(value)
    except TypeError:
        number = 0
    if number < 1 or isinstance(value, bool):
        raise ValueError(f"KMeansClustering: {name} must be an int ≥ 1, got {value!r}.")
    return number


def _listed(choices: Sequence[str]) -> str:
    return ", ".join(map(repr, choices))
