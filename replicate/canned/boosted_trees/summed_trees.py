"""Logits of finished trees, kept from step to step where every batch is the whole data."""

from typing import final

import tensorflow as tf

from replicate._types import Operation, Tensor
from replicate.canned.boosted_trees.ensemble import (
    Ensemble,
    assign_growing,
    growing_variable,
    summed_values,
)

v1 = tf.compat.v1


@final
class SummedTrees:
    """Keeps the sum of finished trees for each example. A new session computes it anew."""

    def __init__(self, units: int):
        """Makes local variables in the current scope, for that many logits."""
        local = {"collections": [v1.GraphKeys.LOCAL_VARIABLES]}
        self._count = growing_variable("summed_trees", tf.constant(0), **local)
        self._logits = growing_variable("summed_logits", tf.zeros([0, units]), **local)

    def logits(self, ensemble: Ensemble, buckets: Tensor) -> tuple[Tensor, list[Operation]]:
        """Returns the logits of all trees, [batch, units], and operations that keep the sum.

        A batch of another size is computed from the first tree on.
        """
        count, known = self._count.read_value(), self._logits.read_value()
        batch, units = tf.shape(buckets)[0], tf.shape(known)[1]
        is_same = tf.equal(tf.shape(known)[0], batch)
        start = tf.where(is_same, count, 0)
        known = tf.cond(is_same, lambda: known, lambda: tf.zeros([batch, units]))
        finished = ensemble.finished_trees
        base = summed_values(ensemble, buckets, ensemble.roots[start:finished], known)
        logits = summed_values(ensemble, buckets, ensemble.roots[finished:], base)
        with v1.control_dependencies([logits, count]):
            kept = assign_growing([self._count, self._logits], [finished, base])
        return logits, kept
