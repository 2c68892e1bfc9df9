"""Updates of moving averages by a batch, which either all of several factors accept, or none.

Called by the estimator.
"""

from collections.abc import Sequence
from typing import NamedTuple

import tensorflow as tf

from kfac._types import DType, Scalar, Tensor
from kfac.curvature.shared_work import batch_moments
from kfac.fisher_factors.base import FisherFactor, Substitutes
from kfac.linalg import tensor_ops
from kfac.state import Change
from kfac.workers import agreed, current_workers

v1 = tf.compat.v1

LARGE_STATISTIC = 2**24
"""Bytes from which a statistic is computed only once its batch is known to be accepted."""


class Batch(NamedTuple):
    """A batch of examples.

    Attributes:
      substitutes: Tensors to use instead of those that the factors were made with.
      is_finite: bool [], true if its losses are finite.
    """

    substitutes: Substitutes
    is_finite: Tensor


def fold_batch(
    factors: Sequence[FisherFactor], devices: Sequence[str], batch: Batch, ema_decay: Scalar
) -> list[Change]:
    """Folds a batch into averages, unless a loss or one of the statistics is not finite.

    Several workers fold the statistic of the batches of all, so that all are computed at once.

    Large statistics are computed once the batch is known to be accepted, one after another on each
    device, so the memory for them is needed only once. A factor that cannot predict if its
    statistic will be finite computes it before, even if it is large.

    Args:
      factors: The factors.
      devices: Device of each factor's statistic.
      batch: The batch.
      ema_decay: β, weight of the past.

    Returns:
      The changes of their `cov_variables`, factor after factor.
    """
    if current_workers() is not None:
        moments = batch_moments(factors, devices, batch.substitutes)
        statistics = [
            factor.statistic(moment) for factor, moment in zip(factors, moments, strict=True)
        ]
        return fold_statistics(factors, devices, statistics, ema_decay, agreed(batch.is_finite))
    known: list[Tensor | None] = []
    finite = [batch.is_finite]
    checked = []
    for factor, device in zip(factors, devices, strict=True):
        with v1.device(device):
            if factor.can_predict_finite and factor.cov_bytes >= LARGE_STATISTIC:
                known.append(None)
                finite.append(factor.will_be_finite(batch.substitutes))
            else:
                statistic = factor.batch_statistic(batch.substitutes)
                known.append(statistic)
                checked.append(factor.entries_to_check(statistic))
    if checked:
        finite.append(tensor_ops.all_finite_in(checked))
    accept = tensor_ops.all_true(finite)
    scalars = _SharedScalars(accept, ema_decay)
    changes: list[Change] = []
    large: dict[str, list[Change]] = {}
    for factor, device, early in zip(factors, devices, known, strict=True):
        with v1.device(device):
            if early is not None:
                decay, refusals = scalars.decay(device, factor.dtype), scalars.refusals(device)
                changes += factor.updated_average(early, accept, decay, refusals=refusals)
                continue
            before = [change.value for change in large.get(device, [])]
            with v1.control_dependencies([accept, *before]):
                late = factor.batch_statistic(batch.substitutes)
            refusals = scalars.refusals(device)
            large[device] = factor.updated_average(late, accept, ema_decay, refusals=refusals)
            changes += large[device]
    return changes


def fold_statistics(
    factors: Sequence[FisherFactor],
    devices: Sequence[str],
    statistics: Sequence[Tensor],
    ema_decay: Scalar,
    is_finite: Tensor | None = None,
) -> list[Change]:
    """Folds statistics into averages, unless one of them is not finite.

    Args:
      factors: The factors.
      devices: Device of each factor's update.
      statistics: The statistic of each factor.
      ema_decay: β, weight of the past.
      is_finite: bool [], false if nothing may be folded whatever the statistics are.

    Returns:
      The changes of their `cov_variables`, factor after factor.
    """
    checked = []
    for factor, device, statistic in zip(factors, devices, statistics, strict=True):
        with v1.device(device):
            checked.append(factor.entries_to_check(statistic))
    known = [] if is_finite is None else [is_finite]
    accept = tensor_ops.all_true([*known, tensor_ops.all_finite_in(checked)])
    scalars = _SharedScalars(accept, ema_decay)
    changes: list[Change] = []
    for factor, device, statistic in zip(factors, devices, statistics, strict=True):
        with v1.device(device):
            decay, refusals = scalars.decay(device, factor.dtype), scalars.refusals(device)
            changes += factor.updated_average(statistic, accept, decay, refusals=refusals)
    return changes


class _SharedScalars:
    """β in each dtype, and the number of refusals, once on each device."""

    def __init__(self, accept: Tensor, ema_decay: Scalar) -> None:
        """Makes none yet.

        Args:
          accept: bool [], true if the batch is accepted.
          ema_decay: β.
        """
        self._accept = accept
        self._ema_decay = ema_decay
        self._decays: dict[tuple[str, DType], Tensor] = {}
        self._refusals: dict[str, Tensor] = {}

    def decay(self, device: str, dtype: DType) -> Tensor:
        """Returns β on a device, whose scope is active."""
        if (device, dtype) not in self._decays:
            self._decays[device, dtype] = tensor_ops.as_scalar(self._ema_decay, dtype)
        return self._decays[device, dtype]

    def refusals(self, device: str) -> Tensor:
        """Returns int64 [], 1 if the batch is refused, on a device, whose scope is active."""
        if device not in self._refusals:
            self._refusals[device] = tf.cast(tf.logical_not(self._accept), tf.int64)
        return self._refusals[device]
