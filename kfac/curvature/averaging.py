"""Averages of batches: each folded by itself, or several as the one batch that they make up.

A batch is folded into the averages of all of several factors, or into none. Over several workers it
is that of all of them: moments cross as packed triangles where they are symmetric. `BatchSums` owns
one variable per factor, to which the moments of batches are added that come one after another, or
from several workers at the same time: each sum and its number of examples change together, in one
op. Sums are part of checkpoints, so a run that stops between two updates resumes exactly. The
caller decides when to add and when to fold. Called by the estimator.
"""

import functools
import math
import typing
from collections.abc import Sequence

import tensorflow as tf

from kfac._types import DType, Operation, Scalar, Tensor, Variable
from kfac.fisher_factors.base import FisherFactor, Moment, Substitutes
from kfac.fisher_factors.kept import fold_average
from kfac.linalg import tensor_ops
from kfac.placement import Place
from kfac.state import Addition, Change, make_counter, make_variable, read
from kfac.workers import agreed, current_workers, summed

v1 = tf.compat.v1

LARGE_STATISTIC = 2**24
"""Bytes from which a statistic is computed only once its batch is known to be accepted."""


def fold_batch(
    factors: Sequence[FisherFactor],
    devices: Sequence[str],
    substitutes: Substitutes,
    is_finite: Tensor,
    ema_decay: Scalar,
) -> list[Operation]:
    """Folds a batch into averages, unless a loss or one of the statistics is not finite.

    Several workers fold the statistic of the batches of all, so that all are computed at once.

    Large statistics are computed once the batch is known to be accepted, one after another on each
    device, so the memory for them is needed only once. A factor that cannot predict if its
    statistic will be finite computes it before, even if it is large.

    The substitutes replace tensors that the factors were made with. `is_finite`, bool [], is true
    if the losses of the batch are finite. `ema_decay` is β, the weight of the past. Returns an op
    for each factor, on its device.
    """
    if current_workers() is not None:
        moments = batch_moments(factors, devices, substitutes)
        both = zip(factors, moments, strict=True)
        statistics = [factor.statistic(moment) for factor, moment in both]
        return fold_statistics(factors, devices, statistics, ema_decay, [agreed(is_finite)])

    early: list[Tensor | None] = []
    finite = [is_finite]
    for factor, device in zip(factors, devices, strict=True):
        with v1.device(device):
            if factor.can_predict_finite and factor.cov_bytes >= LARGE_STATISTIC:
                early.append(None)
                finite.append(factor.will_be_finite(substitutes))
            else:
                early.append(factor.batch_statistic(substitutes))
    return fold_statistics(factors, devices, early, ema_decay, finite, substitutes)


def fold_statistics(
    factors: Sequence[FisherFactor],
    devices: Sequence[str],
    statistics: Sequence[Tensor | None],
    ema_decay: Scalar,
    finite: Sequence[Tensor] = (),
    substitutes: Substitutes | None = None,
) -> list[Operation]:
    """Folds a statistic of each factor into averages, unless one of them is not finite.

    A statistic that is None is computed once all are accepted, with the substitutes of
    `fold_batch`. `finite` are further conditions, bool [] each. Returns an op for each factor, on
    its device.
    """
    checked = []
    for factor, device, statistic in zip(factors, devices, statistics, strict=True):
        if statistic is not None:
            with v1.device(device):
                checked.append(factor.entries_to_check(statistic))
    of_all = [tensor_ops.all_finite(*checked)] if checked else []
    accept = tensor_ops.all_true([*finite, *of_all])
    decays = _decays(factors, devices, ema_decay)
    fold = functools.partial(fold_average, omega=1.0)
    updates: list[Operation] = []
    large: dict[str, list[Operation]] = {}
    for factor, device, statistic, decay in zip(factors, devices, statistics, decays, strict=True):
        with v1.device(device):
            if statistic is not None:
                kept = factor.kept_form(statistic)
                updates.append(fold(factor.cov_variables, kept, accept, beta=decay))
                continue
            with v1.control_dependencies([accept, *large.get(device, [])]):
                late = factor.kept_form(factor.batch_statistic(substitutes))
            large[device] = [fold(factor.cov_variables, late, accept, beta=decay)]
            updates += large[device]
    return updates


def _decays(
    factors: Sequence[FisherFactor], devices: Sequence[str], ema_decay: Scalar
) -> list[Scalar]:
    """Returns β of each factor: a number, or a Tensor [] for all of a dtype on a device."""
    (value,) = tensor_ops.known_or_scalars([ema_decay], tf.float64)
    found: dict[tuple[str, DType], Scalar] = {}
    for factor, device in zip(factors, devices, strict=True):
        if (device, factor.dtype) not in found:
            with v1.device(device):
                is_known = isinstance(value, (int, float))
                found[device, factor.dtype] = (
                    float(value) if is_known else tf.cast(value, factor.dtype)
                )
    return [found[device, factor.dtype] for factor, device in zip(factors, devices, strict=True)]


def batch_moments(
    factors: Sequence[FisherFactor], devices: Sequence[str], substitutes: Substitutes | None
) -> list[Moment]:
    """Returns the moment of each factor, over the batches of all workers.

    The substitutes replace tensors that the factors were made with.
    """
    moments, sent = [], []
    for factor, device in zip(factors, devices, strict=True):
        with v1.device(device):
            moments.append(factor.batch_moment(substitutes))
    if current_workers() is None:
        return moments
    for factor, moment, device in zip(factors, moments, devices, strict=True):
        with v1.device(device):
            sent += [factor.packed(moment.total), tensor_ops.as_scalar(moment.count, tf.float64)]
    sums = iter(summed(sent))
    totals = []
    for factor, device in zip(factors, devices, strict=True):
        with v1.device(device):
            totals.append(Moment(factor.unpacked(next(sums)), next(sums)))
    return totals


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
