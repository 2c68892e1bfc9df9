"""Inverses of several factors: large ones in turn, and over equal workers a share by each.

Each layer's dampings are computed once. Large functions on the same device are computed one after
another, so the memory for their intermediate results is needed only once.

Over several workers each computes the inverses that it owns, and zeros stand for the others in a
sum that gives all of them to all workers. So every worker has the same inverses to the bit, also
where their processors round differently. Called by the estimator, and by the workers that compute
inverses beside the steps.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import tensorflow as tf

from kfac._types import Operation, Tensor
from kfac.fisher_factors.base import NOTHING_KNOWN, FisherFactor, Known
from kfac.fisher_factors.kept import current_dampings
from kfac.placement import assign_by_cost
from kfac.state import Change, assign_all, group
from kfac.workers import current_workers

v1 = tf.compat.v1

LARGE_INVERSE = 1024.0**3
"""Cost from which a single inverse keeps all cores of a device busy."""


def inverse_update(factors: Sequence[FisherFactor], devices: Sequence[str]) -> Operation:
    """Returns an op that recomputes all registered functions of factors from current averages.

    The work is divided over the workers by cost.
    """
    if current_workers() is None:
        made = _in_turn(factors, devices, NOTHING_KNOWN, lambda factor, *x: factor.refresh(*x))
        return group(*(operation for own in made for operation in own))
    own = own_factors(factors)
    return assign_all(from_owners(_updated(factors, devices, own), factors, devices))


def compute_in_turn(
    factors: Sequence[FisherFactor],
    devices: Sequence[str],
    dampings: Known = NOTHING_KNOWN,
    averages: Known = NOTHING_KNOWN,
) -> list[list[Change]]:
    """Computes all registered functions of some factors, each on its device.

    Dampings d, shape [] each, are given by name, and averages by the factor's name. Those that are
    not given are computed or read. Returns the changes of `inv_variables` of each factor.
    """
    known = [averages] if averages else []  # A program's own factors need not take any.
    return _in_turn(
        factors, devices, dampings, lambda factor, found, _: factor.updated_inverses(found, *known)
    )


def _in_turn(
    factors: Sequence[FisherFactor],
    devices: Sequence[str],
    dampings: Known,
    make: Callable[[FisherFactor, Known, str], list[Any]],
) -> list[list[Any]]:
    """Returns what a function makes of each factor, all its dampings and its device.

    It makes operations or changes. Those of a large factor wait for the large one before.
    """
    made: list[list[Any]] = []
    large: dict[str, list[Any]] = {}
    for factor, device in zip(factors, devices, strict=True):
        is_large = factor.inverse_cost >= LARGE_INVERSE
        with v1.device(device):
            dampings = current_dampings(factor.dampings, dampings)
            with v1.control_dependencies(large.get(device, []) if is_large else []):
                own = make(factor, dampings, device)
        if is_large:
            large[device] = [x if isinstance(x, tf.Operation) else x.value for x in own]
        made.append(own)
    return made


def own_factors(factors: Sequence[FisherFactor]) -> list[int]:
    """Returns the numbers of the factors that this worker inverts: all, if there are no workers."""
    workers = current_workers()
    if workers is None:
        return list(range(len(factors)))
    costs = [factor.inverse_cost for factor in factors]
    owners = assign_by_cost(costs, range(workers.size))
    return [index for index, owner in enumerate(owners) if owner == workers.rank]


def from_owners(
    own: Mapping[int, Sequence[Change]], factors: Sequence[FisherFactor], devices: Sequence[str]
) -> list[Change]:
    """Gives the inverses of each worker to all workers.

    `own` has the changes of `inverse_update_vars` of the factors that this worker inverts, by
    number. Each factor has a device for its computation. Returns the changes of all factors with
    the values of their owners, factor after factor.
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
