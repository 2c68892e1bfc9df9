"""Sums over several batches, from which one update of the averages is made.

Owns a variable for the sum of each factor, adds the moments of a batch to it, and turns it into
statistics: those of the one batch that the batches are parts of, for every factor that is a mean
over examples. The parts may come one after another, or from several workers at the same time: what
is added, and what is taken out, is added or taken at once, the number of examples with it. Sums are
part of checkpoints, so that a run that stops between two updates goes on exactly. When to add and
when to update is for others to say. Called by the estimator.
"""

import math
import typing
from collections.abc import Sequence

import tensorflow as tf

from kfac._types import Tensor, Variable
from kfac.fisher_factors.base import FisherFactor, Moment, Substitutes
from kfac.linalg import tensor_ops
from kfac.placement import Place
from kfac.state import Addition, Change, make_counter, make_variable, read

v1 = tf.compat.v1


@typing.final
class BatchSums:
    """The moments of factors, added up since the last update of their averages.

    Attributes:
      variables: Of each factor one [entries + 1], in the dtype of the statistic: the sum over the
        examples and, at the end, over how many it is.
      refused: int64 variable []: batches that were left out because they were not finite.
    """

    def __init__(self, factors: Sequence[FisherFactor], places: Sequence[Place]) -> None:
        """Makes the variables.

        Args:
          factors: All factors.
          places: Where each factor's average is.
        """
        self._factors = factors
        self._places = places
        self.variables: list[Variable] = [
            make_variable(
                f"{factor.name}/batch_sum",
                [math.prod(factor.cov_shape) + 1],
                factor.dtype,
                place.variables,
            )
            for factor, place in zip(factors, places, strict=True)
        ]
        self.refused = make_counter("refused_batches")
        with v1.name_scope("kfac/monitor/"):
            v1.summary.scalar("refused_batches", read(self.refused))

    def is_empty(self) -> Tensor:
        """Returns whether nothing was added since the last update, bool []."""
        smallest = min(self.variables, key=lambda variable: variable.shape.num_elements())
        with v1.device(smallest.device):
            return tf.equal(read(smallest)[-1], 0)

    def added(self, substitutes: Substitutes, is_finite: Tensor) -> list[Change]:
        """Adds a batch to all sums or, if not all of it is finite, to none.

        Args:
          substitutes: Tensors to use instead of those that the factors were made with.
          is_finite: bool [], whether the losses of the batch are.

        Returns:
          The changes of `variables` and of `refused`.
        """
        moments = []
        for factor, place in zip(self._factors, self._places, strict=True):
            with v1.device(place.compute):
                moments.append(factor.batch_moment(substitutes))
        finite = [tensor_ops.all_finite(moment.total) for moment in moments]
        accept = tensor_ops.all_true([is_finite, *finite])
        changes: list[Change] = []
        for variable, moment, place in zip(self.variables, moments, self._places, strict=True):
            with v1.device(place.compute):
                count = tf.cast(moment.count, moment.total.dtype)
                entries = tf.concat([tf.reshape(moment.total, [-1]), count[tf.newaxis]], axis=0)
                wanted = tf.math.multiply_no_nan(entries, tf.cast(accept, entries.dtype))
                changes.append(Addition(variable, wanted))
        with v1.device(accept.device):
            refused = tf.cast(tf.logical_not(accept), tf.int64)
        return [*changes, Addition(self.refused, refused)]

    def taken(self, indices: Sequence[int]) -> tuple[list[Tensor], list[Change]]:
        """Takes some factors' statistics out of the sums, where these are.

        Args:
          indices: Which factors.

        Returns:
          (statistics, changes): the statistics of all that was added, NaN if that is nothing; the
          changes take just that out of the sums.
        """
        statistics: list[Tensor] = []
        changes: list[Change] = []
        for index in indices:
            variable, factor = self.variables[index], self._factors[index]
            with v1.device(variable.device):
                found = read(variable)
                total = tf.reshape(found[:-1], factor.cov_shape)
                statistics.append(factor.statistic(Moment(total, found[-1])))
                changes.append(Addition(variable, -found))
        return statistics, changes
