"""Updates of moving averages by a batch, which either all of several factors accept, or none.

Called by the estimator.
"""

from collections.abc import Sequence
from typing import NamedTuple

import tensorflow as tf

from kfac._types import DType, Operation, Scalar, Tensor
from kfac.curvature.shared_work import batch_moments
from kfac.fisher_factors.base import FisherFactor, Substitutes
from kfac.linalg import tensor_ops
from kfac.workers import agreed, current_workers

v1 = tf.compat.v1

LARGE_STATISTIC = 2**24
"""Bytes from which a statistic is computed only once its batch is known to be accepted."""


class Batch(NamedTuple):
    """A batch of examples: tensors to use instead of those that the factors were made with.

    `is_finite`, bool [], is true if its losses are finite.
    """

    substitutes: Substitutes
    is_finite: Tensor


def fold_batch(
    factors: Sequence[FisherFactor], devices: Sequence[str], batch: Batch, ema_decay: Scalar
) -> list[Operation]:
    """Folds a batch into averages, unless a loss or one of the statistics is not finite.

    Several workers fold the statistic of the batches of all, so that all are computed at once.

    Large statistics are computed once the batch is known to be accepted, one after another on each
    device, so the memory for them is needed only once. A factor that cannot predict if its
    statistic will be finite computes it before, even if it is large.

    Returns an op for each factor. `ema_decay` is β, the weight of the past.
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
    decays = _decays(factors, devices, ema_decay)
    updates: list[Operation] = []
    large: dict[str, list[Operation]] = {}
    for factor, device, early, decay in zip(factors, devices, known, decays, strict=True):
        with v1.device(device):
            if early is not None:
                updates.append(factor.fold(early, accept, decay))
                continue
            with v1.control_dependencies([accept, *large.get(device, [])]):
                late = factor.batch_statistic(batch.substitutes)
            large[device] = [factor.fold(late, accept, decay)]
            updates += large[device]
    return updates


def fold_statistics(
    factors: Sequence[FisherFactor],
    devices: Sequence[str],
    statistics: Sequence[Tensor],
    ema_decay: Scalar,
    is_finite: Tensor | None = None,
) -> list[Operation]:
    """Folds a statistic of each factor into averages, unless one of them is not finite.

    Nothing is folded either if `is_finite`, bool [], is false. Returns an op for each factor.
    `ema_decay` is β, the weight of the past.
    """
    checked = []
    for factor, device, statistic in zip(factors, devices, statistics, strict=True):
        with v1.device(device):
            checked.append(factor.entries_to_check(statistic))
    known = [] if is_finite is None else [is_finite]
    accept = tensor_ops.all_true([*known, tensor_ops.all_finite_in(checked)])
    decays = _decays(factors, devices, ema_decay)
    updates: list[Operation] = []
    for factor, device, statistic, decay in zip(factors, devices, statistics, decays, strict=True):
        with v1.device(device):
            updates.append(factor.fold(statistic, accept, decay))
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
                found[device, factor.dtype] = value if is_known else tf.cast(value, factor.dtype)
    return [found[device, factor.dtype] for factor, device in zip(factors, devices, strict=True)]
