"""Updates of moving averages by a batch, which either all of several factors accept, or none.

Called by the estimator.
"""

from collections.abc import Sequence
from typing import NamedTuple

import tensorflow as tf

from kfac._types import DType, Scalar, Tensor
from kfac.curvature.shared_work import batch_moments
from kfac.fisher_factors.base import FisherFactor, Substitutes
from kfac.fisher_factors.moving_average import Tally
from kfac.linalg import tensor_ops
from kfac.state import Change
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
) -> list[Change]:
    """Folds a batch into averages, unless a loss or one of the statistics is not finite.

    Several workers fold the statistic of the batches of all, so that all are computed at once.

    Large statistics are computed once the batch is known to be accepted, one after another on each
    device, so the memory for them is needed only once. A factor that cannot predict if its
    statistic will be finite computes it before, even if it is large.

    Returns the changes of the factors' `cov_variables`, factor after factor. `ema_decay` is β, the
    weight of the past.
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
    scalars = _shared_scalars(factors, devices, accept, ema_decay)
    changes: list[Change] = []
    large: dict[str, list[Change]] = {}
    for factor, device, early, shared in zip(factors, devices, known, scalars, strict=True):
        with v1.device(device):
            if early is not None:
                changes += factor.updated_average(early, accept, shared.decay, tally=shared.tally)
                continue
            before = [change.value for change in large.get(device, [])]
            with v1.control_dependencies([accept, *before]):
                late = factor.batch_statistic(batch.substitutes)
            large[device] = factor.updated_average(late, accept, shared.decay, tally=shared.tally)
            changes += large[device]
    return changes


def fold_statistics(
    factors: Sequence[FisherFactor],
    devices: Sequence[str],
    statistics: Sequence[Tensor],
    ema_decay: Scalar,
    is_finite: Tensor | None = None,
) -> list[Change]:
    """Folds a statistic of each factor into averages, unless one of them is not finite.

    Nothing is folded either if `is_finite`, bool [], is false. Returns the changes of the factors'
    `cov_variables`, factor after factor. `ema_decay` is β, the weight of the past.
    """
    checked = []
    for factor, device, statistic in zip(factors, devices, statistics, strict=True):
        with v1.device(device):
            checked.append(factor.entries_to_check(statistic))
    known = [] if is_finite is None else [is_finite]
    accept = tensor_ops.all_true([*known, tensor_ops.all_finite_in(checked)])
    scalars = _shared_scalars(factors, devices, accept, ema_decay)
    changes: list[Change] = []
    for factor, device, statistic, shared in zip(
        factors, devices, statistics, scalars, strict=True
    ):
        with v1.device(device):
            changes += factor.updated_average(statistic, accept, shared.decay, tally=shared.tally)
    return changes


class _Scalars(NamedTuple):
    """Scalars of a factor's update: β in its dtype; the new weight and the number of refusals."""

    decay: Tensor
    tally: Tally


def _shared_scalars(
    factors: Sequence[FisherFactor], devices: Sequence[str], accept: Tensor, ema_decay: Scalar
) -> list[_Scalars]:
    """Returns the scalars of each factor, those on the same device computed together."""
    together: dict[tuple[str, DType], list[int]] = {}
    for index, (factor, device) in enumerate(zip(factors, devices, strict=True)):
        together.setdefault((device, factor.dtype), []).append(index)
    found: dict[int, _Scalars] = {}
    for (device, dtype), indices in together.items():
        with v1.device(device):
            beta, omega = (tensor_ops.as_scalar(x, dtype) for x in (ema_decay, 1))
            weights = tf.stack([factors[index].read_weight() for index in indices])
            tally = Tally.of(weights, accept, beta, omega)
            for index, weight in zip(indices, tf.unstack(tally.weight), strict=True):
                found[index] = _Scalars(beta, Tally(weight, tally.refusals))
    return [found[index] for index in range(len(factors))]
