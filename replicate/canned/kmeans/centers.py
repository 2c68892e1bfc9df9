"""Variables of K-means: the centers, and the state of their moves.

Names and types are those of tf.estimator's checkpoints. The centers have no static shape, because
they may be chosen over several batches: an initial checkpoint may hold only some of them.
"""

import dataclasses
from typing import Any

import tensorflow as tf

from replicate._types import Operation, Tensor, Variable
from replicate.canned.kmeans.settings import KMeansSettings

v1 = tf.compat.v1

CLUSTERS_NAME = "clusters"


@dataclasses.dataclass(frozen=True)
class TrainedVariables:
    """Variables that only training uses.

    Attributes:
      initialized: Boolean scalar, True when all first centers have been chosen.
      counts: int64 [num_clusters], points that each center has averaged; None for full batches.
      moving: float32 [num_clusters, k], the copy of the centers that moves in each step. It is
        `clusters` itself with one step per iteration.
      steps_left: int64 scalar, steps until the end of the iteration; None with one per iteration.
    """

    initialized: Variable
    counts: Variable | None
    moving: Variable
    steps_left: Variable | None


def create_clusters() -> Variable:
    """Makes the variable of the centers, or gets it in a tower after the first: [chosen, k].

    Its first value is [0], so its static shape is unknown.
    """
    return _without_shape(CLUSTERS_NAME)


def create_trained_variables(clusters: Variable, settings: KMeansSettings) -> TrainedVariables:
    """Makes the variables of training besides the centers, or gets them in a later tower."""
    initialized = v1.get_variable("initialized", dtype=tf.bool, initializer=tf.constant(False))
    if not settings.use_mini_batch:
        return TrainedVariables(initialized, None, clusters, None)
    several = settings.steps_per_iteration > 1
    moving, steps_left = clusters, None
    if several:
        moving = _without_shape("clusters_updated")
        steps = tf.constant(settings.steps_per_iteration, tf.int64)
        steps_left = v1.get_variable("update_in_steps", dtype=tf.int64, initializer=steps)
    # With one step per iteration each first center counts as a point.
    first = tf.fill([settings.num_clusters], tf.constant(0 if several else 1, tf.int64))
    counts = v1.get_variable("Variable", dtype=tf.int64, initializer=first)
    return TrainedVariables(initialized, counts, moving, steps_left)


def assign_all(variables: TrainedVariables, clusters: Variable, centers: Tensor) -> Operation:
    """Returns the operation that assigns centers, float32 [chosen, k], to both copies."""
    copies = [clusters] if variables.moving is clusters else [clusters, variables.moving]
    return v1.group(*(v1.assign(copy, centers, validate_shape=False) for copy in copies))


def _without_shape(name: str) -> Any:
    empty = v1.placeholder_with_default(tf.zeros([0]), shape=None)
    return v1.get_variable(name, initializer=empty, validate_shape=False)
