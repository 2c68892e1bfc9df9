"""Which device does which part of the work: nothing but choices, no ops are made here.

Called by the estimator, once for the moving averages and once for the inverses.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple


class Place(NamedTuple):
    """Where one factor lives.

    Attributes:
      compute: Device that does the work, "" for no preference.
      variables: Device of the variables, "" to leave it to the surrounding device scope.
    """

    compute: str
    variables: str


def distinct(devices: Iterable[str]) -> tuple[str, ...]:
    """Returns the different devices in order of first appearance."""
    return tuple(dict.fromkeys(devices))


def assign_by_cost(costs: Sequence[float], devices: Sequence[str]) -> list[str]:
    """Spreads work over devices: largest piece first, each to the least loaded device.

    Deterministic: equal costs go in order of index, equal loads to the earlier device.

    Args:
      costs: Cost of each piece of work, in any unit.
      devices: At least one device.

    Returns:
      The device of each piece, in the order of `costs`.

    Raises:
      ValueError: There is no device.
    """
    if not devices:
        raise ValueError(
            f"Cannot place {len(costs)} K-FAC factors: the list of devices is empty. Give at least "
            "one device, or None to use the devices of the registered layers."
        )
    load = dict.fromkeys(distinct(devices), 0.0)
    chosen = [""] * len(costs)
    for index in sorted(range(len(costs)), key=lambda i: (-costs[i], i)):
        device = min(load, key=lambda name: load[name])
        load[device] += costs[index]
        chosen[index] = device
    return chosen


def place_factors(
    dimensions: Sequence[int], devices: Sequence[str] | None, layer_devices: Sequence[str]
) -> list[Place]:
    """Places factors of the given sizes, reckoning n³ for an n x n matrix.

    Devices that the user names hold the variables too. Without them the work goes to the devices
    of the layers; the variables follow, unless a layer's device names a job: in a cluster the
    surrounding device scope decides, because variables belong on the parameter servers there.

    Args:
      dimensions: Rows of each factor.
      devices: The user's choice, or None.
      layer_devices: The devices on which registered tensors are computed.

    Returns:
      One Place per factor.

    Raises:
      ValueError: `devices` is empty.
    """
    candidates = distinct(layer_devices) if devices is None else tuple(devices)
    chosen = assign_by_cost([float(n) ** 3 for n in dimensions], candidates)
    if devices is not None:
        return [Place(device, device) for device in chosen]
    return [Place(device, "" if "/job:" in device else device) for device in chosen]
