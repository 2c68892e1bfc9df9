"""Inverses of several factors: each layer's dampings are computed once, large ones in turn.

Large functions on the same device are computed one after another, so the memory for their
intermediate results is needed only once. Called by the estimator, and by the workers that compute
inverses beside the steps.
"""

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from kfac._types import Operation
from kfac.fisher_factors.base import NOTHING_KNOWN, FisherFactor, Known
from kfac.fisher_factors.slot import current_dampings
from kfac.state import Change

v1 = tf.compat.v1

LARGE_INVERSE = 1024.0**3
"""Cost from which a single inverse keeps all cores of a device busy."""


def refresh_in_turn(factors: Sequence[FisherFactor], devices: Sequence[str]) -> list[Operation]:
    """Returns ops that recompute all registered functions of some factors from current averages.

    Args:
      factors: The factors.
      devices: Device of each factor's computation.
    """
    made = _in_turn(factors, devices, NOTHING_KNOWN, lambda factor, *args: factor.refresh(*args))
    return [operation for own in made for operation in own]


def compute_in_turn(
    factors: Sequence[FisherFactor],
    devices: Sequence[str],
    dampings: Known = NOTHING_KNOWN,
    averages: Known = NOTHING_KNOWN,
) -> list[list[Change]]:
    """Computes all registered functions of some factors.

    Args:
      factors: The factors.
      devices: Device of each factor's computation.
      dampings: d by name, shape [] each.
      averages: Values of averages by the factor's name.

    Returns:
      The changes of `inv_variables` of each factor.
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
