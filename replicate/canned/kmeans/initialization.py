"""Choice of the first centers from one batch after another.

Reference: Arthur & Vassilvitskii (2007), "k-means++: The advantages of careful seeding".
"""

import random
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from replicate._types import Operation, Tensor, Variable
from replicate.canned.kmeans.centers import TrainedVariables, assign_all
from replicate.canned.kmeans.distances import normalized_for
from replicate.canned.kmeans.settings import RANDOM_INIT, KMeansSettings

v1 = tf.compat.v1


class Initialization(NamedTuple):
    """Tensors and operations that choose the first centers.

    Attributes:
      is_done: Boolean scalar, True when all centers have been chosen.
      shape: int32 vector, shape of the centers chosen so far: [0], or [chosen, k].
      choose: Adds centers of the next batch.
      finish: Makes `is_done` true.
    """

    is_done: Tensor
    shape: Tensor
    choose: Operation
    finish: Operation


def build_initialization(
    points: Tensor, clusters: Variable, variables: TrainedVariables, settings: KMeansSettings
) -> Initialization:
    """Builds the operations that choose the first centers from points [N, k], the whole batch."""
    with v1.name_scope("initialization"):
        chosen = clusters.read_value()
        missing = settings.num_clusters - tf.shape(chosen)[0]
        new = normalized_for(settings, _new_centers(points, missing, settings))
        # The first value, [0], becomes [0, k].
        earlier = tf.reshape(chosen, [-1, tf.shape(new)[1]])
        choose = assign_all(variables, clusters, tf.concat([earlier, new], axis=0))
        finish = v1.assign(variables.initialized, True)
        is_done = tf.identity(variables.initialized.read_value())
        return Initialization(is_done, tf.shape(chosen), choose, finish.op)


def _new_centers(points: Tensor, missing: Tensor, settings: KMeansSettings) -> Tensor:
    """Returns up to `missing` centers, [M, k]."""
    initial = settings.initial_clusters
    if isinstance(initial, np.ndarray):
        return tf.constant(initial)
    if callable(initial):
        return tf.cast(initial([points], missing), tf.float32)
    if initial == RANDOM_INIT:
        return _random_rows(points, missing, _seed(settings))
    return _kmeans_plus_plus(normalized_for(settings, points), missing, settings)


def _random_rows(points: Tensor, missing: Tensor, seed: int | None) -> Tensor:
    """Draws rows with replacement; takes all if there are not more than missing."""
    rows = tf.shape(points, out_type=tf.int64)[0]

    def draw() -> Tensor:
        indices = tf.random.uniform([missing], maxval=rows, dtype=tf.int64, seed=seed)
        return tf.gather(points, indices)

    return tf.cond(rows <= tf.cast(missing, tf.int64), lambda: tf.identity(points), draw)


def _kmeans_plus_plus(points: Tensor, missing: Tensor, settings: KMeansSettings) -> Tensor:
    """Chooses all centers from one batch, each far from those before it."""
    missing = tf.cast(missing, tf.int64)
    enough = v1.debugging.assert_greater_equal(
        tf.shape(points, out_type=tf.int64)[0],
        missing,
        message="initial_clusters='kmeans_plus_plus' takes all centers from one batch, which has "
        "fewer points than there are centers. Return a larger first batch from input_fn.",
    )
    seed = _seed(settings)
    with v1.control_dependencies([enough]):
        return tf.raw_ops.KmeansPlusPlusInitialization(
            points=points,
            num_to_sample=missing,
            seed=random.SystemRandom().getrandbits(31) if seed is None else seed,
            num_retries_per_sample=settings.num_retries,
        )


def _seed(settings: KMeansSettings) -> int | None:
    """Returns the seed of the model, or else that of the graph, which RunConfig sets."""
    return v1.get_default_graph().seed if settings.seed is None else settings.seed
