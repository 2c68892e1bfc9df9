"""KMeansClustering: the Estimator of K-means."""

import functools
import os
import typing
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from replicate._types import Nest, Path
from replicate.canned.kmeans import settings as kmeans
from replicate.canned.kmeans.centers import CLUSTERS_NAME
from replicate.canned.kmeans.model import ALL_DISTANCES, CLUSTER_INDEX, SCORE, KMeansModel
from replicate.estimator import Estimator, RunConfig, WarmStartSettings
from replicate.model_fn import replicate_model_fn
from replicate.unmodified.marks import mark_replicated, with_loss_reduction

v1 = tf.compat.v1


@typing.final
class KMeansClustering(Estimator):
    """Clusters points by K-means.

    ```
    kmeans = replicate.KMeansClustering(10, model_dir, initial_clusters="kmeans_plus_plus")
    kmeans.train(input_fn, steps=100)
    centers = kmeans.cluster_centers()
    ```

    input_fn returns no labels. Its features are numbers [N, k], or a dict of them. Batches that the
    first centers are chosen from are not trained on, so repeat a dataset of one batch. The loss is
    the sum over the batch of the distance to the nearest center. The variable `clusters` of a
    checkpoint holds the centers. Predictions are "cluster_index" [N] and "all_distances"
    [N, num_clusters], which are squared for Euclidean distance. An exported model has a signature
    for each, and serves the first by default.
    """

    SQUARED_EUCLIDEAN_DISTANCE = kmeans.SQUARED_EUCLIDEAN_DISTANCE
    COSINE_DISTANCE = kmeans.COSINE_DISTANCE
    RANDOM_INIT = kmeans.RANDOM_INIT
    KMEANS_PLUS_PLUS_INIT = kmeans.KMEANS_PLUS_PLUS_INIT
    SCORE = SCORE
    CLUSTER_INDEX = CLUSTER_INDEX
    ALL_DISTANCES = ALL_DISTANCES
    CLUSTER_CENTERS_VAR_NAME = CLUSTERS_NAME

    def __init__(
        self,
        num_clusters: int,
        model_dir: Path | None = None,
        initial_clusters: Any = kmeans.RANDOM_INIT,
        distance_metric: str = kmeans.SQUARED_EUCLIDEAN_DISTANCE,
        seed: int | None = None,
        use_mini_batch: bool = True,
        mini_batch_steps_per_iteration: int = 1,
        kmeans_plus_plus_num_retries: int = 2,
        relative_tolerance: float | None = None,
        config: RunConfig | None = None,
        feature_columns: Iterable[Any] | None = None,
        *,
        devices: Sequence[str] | None = None,
        warm_start_from: WarmStartSettings | str | os.PathLike[str] | None = None,
    ):
        """Checks and stores the arguments; builds nothing.

        Args:
          num_clusters: Number of centers, ≥ 1. An array of initial_clusters has its own number.
          model_dir: As for Estimator.
          initial_clusters: Choice of the first centers, before the first step. "random" draws
            points of the first batch with replacement; if a batch has no more points than centers
            are missing, all are taken, and the next batch is used too. "kmeans_plus_plus" chooses
            all from the first batch, each with a probability in proportion to the squared distance
            from those before; a batch that is too small is an InvalidArgumentError. An array
            [num_clusters, k] holds the centers themselves. A function f(inputs, k) of a list of
            points [N, size] and the number of missing centers returns up to k centers [M, size];
            it is called for further batches until there are enough.
          distance_metric: "squared_euclidean", or "cosine", 1 − cosine of the angle.
          seed: Seed of the first centers; None takes `RunConfig.tf_random_seed`.
          use_mini_batch: True if a batch is a part of the data. If False, each batch must be all of
            it, and each step makes one iteration of Lloyd's algorithm.
          mini_batch_steps_per_iteration: Mini-batches, ≥ 1, after which the centers move.
          kmeans_plus_plus_num_retries: Further points that k-means++ draws for each center, of
            which it takes the best. A negative number draws O(log(num_clusters)) further ones.
          relative_tolerance: Training stops when |loss − last| / (1 + |last|) is below it, for the
            losses of two steps in a row. None: it does not stop. For full batches.
          config: As for Estimator.
          feature_columns: Columns of a dict of features that make the points. None: all features of
            the dict, in the order of their keys.
          devices: Devices of the towers that share each batch; they find the same centers as one.
            None: no towers.
          warm_start_from: As for Estimator. The centers of that model are the first ones.

        Raises:
          ValueError: An argument is out of range or of an unknown kind.
          TypeError: `devices` is one string, or config or warm_start_from is of the wrong kind.
        """
        settings = kmeans.kmeans_settings(
            num_clusters,
            initial_clusters,
            distance_metric,
            seed,
            use_mini_batch,
            mini_batch_steps_per_iteration,
            kmeans_plus_plus_num_retries,
            relative_tolerance,
            feature_columns,
        )
        model_fn: Callable[..., Any] = KMeansModel(settings).model_fn
        if devices is None:
            model_fn = functools.partial(model_fn)
            with_loss_reduction(model_fn, v1.losses.Reduction.SUM)
        else:
            model_fn = _on_towers(model_fn, devices)
        super().__init__(model_fn, model_dir, config, warm_start_from=warm_start_from)
        self._is_squared = not settings.is_cosine

    def predict_cluster_index(self, input_fn: Callable[..., Any]) -> Iterator[Any]:
        """Yields the index of the nearest center of each point.

        Args:
          input_fn: As for `predict`.
        """
        for prediction in self.predict(input_fn, predict_keys=[CLUSTER_INDEX]):
            yield prediction[CLUSTER_INDEX]

    def transform(self, input_fn: Callable[..., Any]) -> Iterator[Any]:
        """Yields the distances of each point to all centers, an array [num_clusters].

        Euclidean distances are not squared here.

        Args:
          input_fn: As for `predict`.
        """
        for prediction in self.predict(input_fn, predict_keys=[ALL_DISTANCES]):
            distances = prediction[ALL_DISTANCES]
            yield np.sqrt(distances) if self._is_squared else distances

    def score(self, input_fn: Callable[..., Any]) -> Any:
        """Returns the sum over the first batch of the distance to the nearest center.

        Euclidean distances are squared. The score of scikit-learn has the opposite sign.

        Args:
          input_fn: As for `evaluate`.
        """
        return self.evaluate(input_fn, steps=1)[SCORE]

    def cluster_centers(self) -> Any:
        """Returns the centers of the newest checkpoint, [num_clusters, k].

        Raises:
          ValueError: Nothing was trained yet.
        """
        return self.get_variable_value(CLUSTERS_NAME)


def _on_towers(model_fn: Callable[..., Any], devices: Sequence[str]) -> Callable[..., Any]:
    """Returns a model_fn without labels that runs the given one on each device."""
    replicated = replicate_model_fn(model_fn, v1.losses.Reduction.SUM, devices, uneven="weighted")

    def kmeans_on_towers(features: Nest, mode: str, config: Any) -> Any:
        return replicated(features, None, mode, None, config)

    return mark_replicated(kmeans_on_towers)
