"""Sums over several batches, from which one update of the averages is made.

Owns one variable per factor. Adds the moments of each batch to these sums, and turns the sums into
statistics: for every factor that is a mean over examples, those of the one batch that consists of
all added batches. Batches may come one after another, or from several workers at the same time:
each sum and its number of examples change together, in one op. Sums are part of checkpoints, so a
run that stops between two updates resumes exactly. The caller decides when to add and when to
update. Called by the estimator.
"""

import math
import typing
from collections.abc import Sequence

import tensorflow as tf

from kfac._types import Tensor, Variable
from kfac.curvature.shared_work import batch_moments
from kfac.fisher_factors.base import FisherFactor, Moment, Substitutes
from kfac.linalg import tensor_ops
from kfac.placement import Place
from kfac.state import Addition, Change, make_counter, make_variable, read
from kfac.workers import agreed

v1 = tf.compat.v1


@typing.final
class BatchSums:
    """The moments of factors, added up since the last update of their averages.

    `variables` has one [entries + 1] per factor, in the dtype of the statistic, where its average
    is: the sum over the examples and, at the end, their number. `refused`, int64 [], counts the
    batches that were left out because they were not finite.
    """

    def __init__(self, factors: Sequence[FisherFactor], places: Sequence[Place]) -> None:
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
            if not v1.get_default_graph().building_function:
                v1.summary.scalar("refused_batches", read(self.refused))

    def is_empty(self) -> Tensor:
        """Returns bool [], true if nothing was added since the last update."""
        smallest = min(self.variables, key=lambda variable: variable.shape.num_elements())
        with v1.device(smallest.device):
            return tf.equal(read(smallest)[-1], 0)

    def added(self, substitutes: Substitutes, is_finite: Tensor) -> list[Change]:
        """Adds a batch to all sums if all of it is finite, else to none; returns the changes.

        The substitutes replace tensors that the factors were made with. `is_finite`, bool [], is
        true if the losses of the batch are finite.
        """
        devices = [place.compute for place in self._places]
        moments = batch_moments(self._factors, devices, substitutes)
        finite = [tensor_ops.all_finite(moment.total) for moment in moments]
        accept = tensor_ops.all_true([agreed(is_finite), *finite])
        changes: list[Change] = []
        for variable, moment, place in zip(self.variables, moments, self._places, strict=True):
            with v1.device(place.compute):
                count = tensor_ops.as_scalar(moment.count, moment.total.dtype)
                entries = tf.concat([tf.reshape(moment.total, [-1]), count[tf.newaxis]], axis=0)
                wanted = tf.math.multiply_no_nan(entries, tf.cast(accept, entries.dtype))
                changes.append(Addition(variable, wanted))
        with v1.device(accept.device):
            refused = tf.cast(tf.logical_not(accept), tf.int64)
        return [*changes, Addition(self.refused, refused)]

    def taken(self, indices: Sequence[int]) -> tuple[list[Tensor], list[Change]]:
        """Takes statistics of the factors `indices` out of the sums, on the devices of the sums.

        Returns:
          (statistics, changes): the statistics of everything that was added, NaN if nothing was;
          and the changes that take exactly this out of the sums.
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
