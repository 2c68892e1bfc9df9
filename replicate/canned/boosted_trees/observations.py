"""Observations: numeric features of the first batches, and the boundaries that come of them."""

from typing import final

import tensorflow as tf

from replicate._types import Operation, Tensor
from replicate.canned.boosted_trees.ensemble import assign_growing, growing_variable
from replicate.canned.boosted_trees.quantiles import no_boundaries, quantile_boundaries

v1 = tf.compat.v1

_CAPACITY = (1 << 31) - 1


@final
class Observations:
    """Collects examples of numeric features, and computes their quantiles at the end."""

    def __init__(self, features: int, num_quantiles: int, batches: int):
        """Makes the variables in the current scope.

        Args:
          features: Number of numeric features.
          num_quantiles: Quantiles of each.
          batches: Batches to collect.
        """
        self._boundaries = create_boundaries(features)
        self._is_ready = v1.get_variable(
            "are_boundaries_ready",
            initializer=tf.constant(False),
            trainable=False,
            use_resource=True,
        )
        # Examples wait in the session: a checkpoint of these steps does not hold them.
        self._seen = v1.get_variable(
            "batches_seen",
            initializer=tf.constant(0),
            trainable=False,
            use_resource=True,
            collections=[v1.GraphKeys.LOCAL_VARIABLES],
        )
        self._queue = tf.queue.FIFOQueue(_CAPACITY, [tf.float32], [[features + 1]])
        self._num_quantiles = num_quantiles
        self._batches = batches
        self.boundaries = self._boundaries.read_value()
        """float32 [features, most boundaries], as they are at the beginning of the step."""
        self.is_ready = self._is_ready.read_value()
        """True if the boundaries were there at the beginning of the step, boolean scalar."""
        self._rows: Tensor = None

    def set_batch(self, values: Tensor, weights: Tensor | None) -> None:
        """Gives the batch: float32 [batch, features], and weights [batch] or None."""
        if weights is None:
            weights = tf.ones([tf.shape(values)[0]])
        self._rows = tf.concat([values, tf.reshape(weights, [-1, 1])], axis=1)

    def observe(self, is_ready: Tensor) -> Operation:
        """Returns the operation that adds the batch, unless there are boundaries already."""
        return tf.cond(is_ready, lambda: tf.constant(True), self._add).op

    def _add(self) -> Tensor:
        with v1.control_dependencies([self._queue.enqueue_many([self._rows])]):
            seen = self._seen.assign_add(1, read_value=True)
        return tf.cond(seen >= self._batches, self._finish, lambda: tf.constant(False))

    def _finish(self) -> Tensor:
        rows = self._queue.dequeue_many(self._queue.size())
        found = quantile_boundaries(rows[:, :-1], rows[:, -1], self._num_quantiles)
        kept = assign_growing([self._boundaries], [found])
        with v1.control_dependencies(kept), v1.control_dependencies([self._is_ready.assign(True)]):
            return tf.constant(True)


def create_boundaries(features: int) -> tf.Variable:
    """Makes the variable of the boundaries of numeric features in the current scope."""
    return growing_variable("boundaries", no_boundaries(features))
