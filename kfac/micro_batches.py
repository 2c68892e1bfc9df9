"""Sums over several micro-batches, from which one update of the averages is made.

Owns variables for the sums of each factor, adds the moments of a batch to them, and turns them into
statistics: those of the one batch that the micro-batches are parts of, for every factor that is a
mean over examples. They are part of checkpoints, so that a run that stops between two updates goes
on exactly. When to add and when to update is for others to say. Called by the estimator.
"""

import typing
from collections.abc import Sequence

import tensorflow as tf

from kfac import linalg
from kfac._types import Tensor, Variable
from kfac.fisher_factors.base import FisherFactor, Moment, Substitutes
from kfac.placement import Place
from kfac.state import Assignment, make_counter, make_variable, read

v1 = tf.compat.v1


class _Sum(typing.NamedTuple):
    """What is kept of one factor.

    Attributes:
      total: Sum over the examples, of the shape and dtype of the statistic.
      count: Over how many it is, [], of the same dtype: TensorFlow may move a cast to a narrower
        one ahead of what the reading of a reference variable waits for.
    """

    total: Variable
    count: Variable


@typing.final
class MicroBatchSums:
    """The moments of factors, added up since the last update of their averages.

    Attributes:
      refused: int64 variable []: micro-batches that were left out because they were not finite.
    """

    def __init__(self, factors: Sequence[FisherFactor], places: Sequence[Place]) -> None:
        """Makes the variables.

        Args:
          factors: All factors.
          places: Where each factor's average is.
        """
        self._factors = factors
        self._places = places
        self._sums = [
            _Sum(
                make_variable(f"{factor.name}/micro_total", factor.cov_shape, factor.dtype, device),
                make_variable(f"{factor.name}/micro_count", [], factor.dtype, device),
            )
            for factor, (_, device) in zip(factors, places, strict=True)
        ]
        self.refused = make_counter("refused_micro_batches")
        with v1.name_scope("kfac/monitor/"):
            v1.summary.scalar("refused_micro_batches", read(self.refused))

    @property
    def variables(self) -> list[Variable]:
        """The variables of all sums, in the order in which `taken` assigns them."""
        return [variable for kept in self._sums for variable in kept]

    def added(self, substitutes: Substitutes, is_finite: Tensor) -> list[Assignment]:
        """Adds a micro-batch to all sums or, if not all of it is finite, to none.

        Args:
          substitutes: Tensors to use instead of those that the factors were made with.
          is_finite: bool [], whether the losses of the micro-batch are.

        Returns:
          The new values of `variables` and of `refused`.
        """
        moments = []
        for factor, place in zip(self._factors, self._places, strict=True):
            with v1.device(place.compute):
                moments.append(factor.batch_moment(substitutes))
        accept = tf.reduce_all([is_finite, *(linalg.all_finite(m.total) for m in moments)])
        assignments = []
        for kept, moment, place in zip(self._sums, moments, self._places, strict=True):
            with v1.device(place.compute):
                for variable, value in zip(kept, moment, strict=True):
                    old = read(variable)
                    new = old + tf.cast(value, old.dtype)
                    assignments.append(Assignment(variable, tf.where(accept, new, old)))
        refused = read(self.refused) + tf.cast(tf.logical_not(accept), tf.int64)
        return [*assignments, Assignment(self.refused, refused)]

    def taken(self, indices: Sequence[int]) -> tuple[list[Tensor], list[Assignment]]:
        """Takes some factors' statistics out of the sums.

        Args:
          indices: Which factors.

        Returns:
          (statistics, assignments): the statistics of all that was added, NaN if that is nothing;
          the assignments start the sums anew.
        """
        statistics, emptied = [], []
        for index in indices:
            with v1.device(self._places[index].compute):
                total, count = (read(variable) for variable in self._sums[index])
                statistics.append(self._factors[index].statistic(Moment(total, count)))
                with v1.control_dependencies([total, count]):
                    emptied += [
                        Assignment(variable, tf.zeros(variable.shape, variable.dtype.base_dtype))
                        for variable in self._sums[index]
                    ]
        return statistics, emptied
