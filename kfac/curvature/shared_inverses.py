"""Inverses over several equal workers, each of which computes a share of them.

Each worker computes the inverses that it owns, and zeros stand for the others in a sum that gives
all of them to all workers. So every worker has the same inverses to the bit, also where their
processors round differently. Called by the estimator.
"""

from collections.abc import Mapping, Sequence

import tensorflow as tf

from kfac._types import Operation, Tensor
from kfac.fisher_factors.base import FisherFactor
from kfac.fisher_factors.inverses import compute_in_turn, refresh_in_turn
from kfac.state import Change, assign_all, group
from kfac.workers import current_workers, owners

v1 = tf.compat.v1


def inverse_update(factors: Sequence[FisherFactor], devices: Sequence[str]) -> Operation:
    """Returns an op that recomputes all registered functions of some factors.

    The work is divided over the workers by cost.
    """
    if current_workers() is None:
        return group(*refresh_in_turn(factors, devices))
    own = own_factors(factors)
    return assign_all(from_owners(_updated(factors, devices, own), factors, devices))


def own_factors(factors: Sequence[FisherFactor]) -> list[int]:
    """Returns the numbers of the factors that this worker inverts: all, if there are no workers."""
    workers = current_workers()
    if workers is None:
        return list(range(len(factors)))
    chosen = owners([factor.inverse_cost for factor in factors], workers.size)
    return [index for index, owner in enumerate(chosen) if owner == workers.rank]


def from_owners(
    own: Mapping[int, Sequence[Change]], factors: Sequence[FisherFactor], devices: Sequence[str]
) -> list[Change]:
    """Gives the inverses of each worker to all workers.

    Args:
      own: The changes of `inverse_update_vars` of the factors that this worker inverts, by number.
      factors: The factors.
      devices: Device of each factor's computation.

    Returns:
      The changes of all factors with the values of their owners, factor after factor.
    """
    workers = current_workers()
    if workers is None:
        return [change for index in sorted(own) for change in own[index]]
    # Those of others only tell which variables change, and are not computed.
    others = _updated(factors, devices, [i for i in range(len(factors)) if i not in own])
    known = {**own, **others}
    flat = [(index in own, change) for index in sorted(known) for change in known[index]]
    sent = [_own_value(is_own, change) for is_own, change in flat]
    return [
        change._replace(value=value)
        for (_, change), value in zip(flat, workers.sum(sent), strict=True)
    ]


def _updated(
    factors: Sequence[FisherFactor], devices: Sequence[str], chosen: Sequence[int]
) -> dict[int, Sequence[Change]]:
    """Returns the changes of the inverses of some factors, by number."""
    changes = compute_in_turn([factors[i] for i in chosen], [devices[i] for i in chosen])
    found: dict[int, Sequence[Change]] = {}
    for index, own in zip(chosen, changes, strict=True):
        with v1.device(devices[index]):
            found[index] = factors[index].move_average(own)
    return found


def _own_value(is_own: bool, change: Change) -> Tensor:
    variable = change.variable
    with v1.device(change.value.device):
        if is_own:
            return tf.ensure_shape(change.value, variable.shape)
        return tf.zeros(variable.shape, variable.dtype.base_dtype)
