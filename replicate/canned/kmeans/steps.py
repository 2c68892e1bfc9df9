"""Moves of the centers, made of the points that are nearest to each.

A tower reduces its points to one matrix, `cluster_sums`: the sum and the number of the points of
each center. These add up over towers, as gradients do, so a `TowerOptimizer` sums them, and
`CenterMoves`, the optimizer inside, moves the centers once for the whole batch.

References: Lloyd (1982), "Least squares quantization in PCM". Sculley (2010), "Web-scale k-means
clustering", algorithm 1, for mini-batches.
"""

import typing
from collections.abc import Iterable

import tensorflow as tf

from replicate._types import Operation, Tensor, Variable
from replicate.canned.kmeans.centers import TrainedVariables
from replicate.canned.kmeans.distances import normalized_for
from replicate.canned.kmeans.settings import KMeansSettings
from replicate.graph_ops.conditional import run_if

v1 = tf.compat.v1

_EPSILON = 1e-6


def cluster_sums(points: Tensor, indices: Tensor, num_clusters: int) -> Tensor:
    """Returns the sum and, in the last column, the number of each center's points.

    Args:
      points: [N, k].
      indices: int64 [N], the center of each point.
      num_clusters: Number of centers.

    Returns:
      [num_clusters, k + 1].
    """
    with_ones = tf.pad(points, [[0, 0], [0, 1]], constant_values=1.0)
    return tf.math.unsorted_segment_sum(with_ones, indices, num_clusters)


@typing.final
class CenterMoves(v1.train.Optimizer):
    """Moves the centers to the mean of their points, or towards it with mini-batches.

    Full batch: each center becomes its points' sum / (their number + 1e-6), so a center without
    points becomes 0. Mini-batch: a center that has averaged m points, and gets n more, moves by
    (their sum − n · center) / (m + n). With several steps per iteration a second copy moves so, and
    replaces the centers after the last step; then m begins at 0 again.
    """

    def __init__(self, clusters: Variable, variables: TrainedVariables, settings: KMeansSettings):
        super().__init__(use_locking=False, name="KMeans")
        self._clusters = clusters
        self._variables = variables
        self._settings = settings

    def apply_gradients(
        self,
        grads_and_vars: Iterable[tuple[Tensor, Variable]],
        global_step: Variable | None = None,
        name: str | None = None,
    ) -> Operation:
        """Returns the operation that moves the centers.

        `grads_and_vars` is one pair: the `cluster_sums` of the batch and the variable `clusters`.
        """
        ((sums, _),) = grads_and_vars
        with v1.name_scope(name or self.get_name()):
            if self._variables.counts is None:
                moved = self._full_batch(sums[:, :-1], sums[:, -1:])
            else:
                moved = self._mini_batch(sums[:, :-1], sums[:, -1:], self._variables.counts)
        if global_step is None:
            return moved
        with v1.control_dependencies([moved]):
            return v1.assign_add(global_step, tf.ones([], global_step.dtype.base_dtype)).op

    def _full_batch(self, sums: Tensor, numbers: Tensor) -> Operation:
        means = normalized_for(self._settings, sums / (numbers + _EPSILON))
        return v1.assign(self._clusters, means, validate_shape=False).op

    def _mini_batch(self, sums: Tensor, numbers: Tensor, counts: Variable) -> Operation:
        moving = self._variables.moving
        earlier = tf.cast(counts.read_value(), tf.float32)[:, tf.newaxis]
        # 0 / 0 is 0 here: a center that never had points stays.
        moves = tf.math.divide_no_nan(sums - numbers * moving.read_value(), earlier + numbers)
        added = tf.cast(tf.squeeze(numbers, axis=1), tf.int64)
        with v1.control_dependencies([moves]):
            moved = v1.group(v1.assign_add(moving, moves), v1.assign_add(counts, added))
        if self._variables.steps_left is None:
            return moved
        with v1.control_dependencies([moved]):
            left = tf.identity(v1.assign_sub(self._variables.steps_left, 1))
        return run_if(left <= 0, lambda: self._end_iteration(counts))

    def _end_iteration(self, counts: Variable) -> Operation:
        """Returns the operation that moves the centers to where the copy has moved."""
        centers = normalized_for(self._settings, self._variables.moving.read_value())
        steps = tf.constant(self._settings.steps_per_iteration, tf.int64)
        return v1.group(
            v1.assign(self._clusters, centers, validate_shape=False),
            v1.assign(counts, tf.zeros_like(counts.read_value())),
            v1.assign(self._variables.steps_left, steps),
        )
