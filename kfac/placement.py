"""Placement: the device of each part of the work. This module makes no ops.

Three kinds of work are placed: moving averages, inverses, and products with blocks. Either by
cost, so that all devices finish at about the same time, or in turn. Called by the estimator.
"""

import itertools
import math
import types
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from kfac.fisher_blocks.base import FisherBlock
from kfac.fisher_factors.base import FisherFactor
from kfac.moved_names import finder


class Place(NamedTuple):
    """The device of one factor's averages or inverses.

    Attributes:
      compute: Device that does the work, "" for no preference.
      variables: Device of the variables, "" to leave it to the surrounding device scope.
    """

    compute: str
    variables: str


class Devices(NamedTuple):
    """The user's choices and the devices of the layers.

    Attributes:
      cov: For moving averages; None or no device means no choice.
      inv: For inverses; likewise.
      trans: For products with blocks; likewise.
      layers: The devices on which registered tensors are computed; "" where that is not known.
    """

    cov: Sequence[str] | None
    inv: Sequence[str] | None
    trans: Sequence[str] | None
    layers: Sequence[str]


class PlacementCosts(NamedTuple):
    """Costs of averages and inverses, in multiplications or any other unit.

    Attributes:
      cov: Cost of each factor's average.
      inv: Cost of each factor's inverses.
      blocks: The numbers of the factors of each block.
    """

    cov: Sequence[float]
    inv: Sequence[float]
    blocks: Sequence[Sequence[int]]


class Placement(NamedTuple):
    """The devices of all parts of the work.

    Attributes:
      cov: Place of each factor's average.
      inv: Place of each factor's inverses.
      trans: Device of each block's products, "" for no preference.
    """

    cov: list[Place]
    inv: list[Place]
    trans: list[str]


def placement_costs(
    blocks: Sequence[FisherBlock], factors: Sequence[FisherFactor]
) -> PlacementCosts:
    """Returns the costs of blocks and their factors; blocks may share factors."""
    number = {factor: index for index, factor in enumerate(factors)}
    return PlacementCosts(
        cov=[float(math.prod(factor.cov_shape)) for factor in factors],
        inv=[factor.inverse_cost for factor in factors],
        blocks=[[number[factor] for factor in block.factors] for block in blocks],
    )


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
            f"Cannot place {len(costs)} pieces of K-FAC's work: the list of devices is empty. Give "
            "at least one device."
        )
    load = dict.fromkeys(distinct(devices), 0.0)
    chosen = [""] * len(costs)
    for index in sorted(range(len(costs)), key=lambda i: (-costs[i], i)):
        device = min(load, key=lambda name: load[name])
        load[device] += costs[index]
        chosen[index] = device
    return chosen


def assign_in_turn(count: int, devices: Sequence[str] | None) -> list[str]:
    """Gives piece i of the work to device i modulo the number of devices.

    Args:
      count: Pieces of work.
      devices: The devices; None or no device for no preference.
    """
    return list(itertools.islice(itertools.cycle(devices or [""]), count))


def place_by_cost(costs: PlacementCosts, devices: Devices) -> Placement:
    """Balances the cost of averages and of inverses, each by itself.

    Devices that the user names hold the variables too. Without them the work goes to the devices
    of the layers; the variables follow, unless a layer's device names a job: in a cluster the
    surrounding device scope decides, because variables belong on the parameter servers there.
    Products are computed where the costliest inverse of the block is, unless devices are named.
    """
    inv = _places_by_cost(costs.inv, devices.inv, devices.layers)
    if not devices.trans:
        trans = [inv[max(block, key=lambda i: costs.inv[i])].compute for block in costs.blocks]
    else:
        products = [sum(costs.cov[i] for i in block) for block in costs.blocks]
        trans = assign_by_cost(products, devices.trans)
    return Placement(_places_by_cost(costs.cov, devices.cov, devices.layers), inv, trans)


def _places_by_cost(
    costs: Sequence[float], devices: Sequence[str] | None, layer_devices: Sequence[str]
) -> list[Place]:
    if devices:
        return [Place(device, device) for device in assign_by_cost(costs, devices)]
    # A block that does not know where it is must not keep others from the devices there are.
    known = [device for device in distinct(layer_devices) if device]
    chosen = assign_by_cost(costs, known or [""])
    return [Place(device, "" if "/job:" in device else device) for device in chosen]


def place_in_turn(costs: PlacementCosts, devices: Devices) -> Placement:
    """Deals factors, and blocks, out to the named devices one after another.

    The variables of averages are on their device; those of inverses are left to the surrounding
    device scope. Where no devices are named there is no preference.
    """
    return Placement(
        cov=[Place(device, device) for device in assign_in_turn(len(costs.cov), devices.cov)],
        inv=[Place(device, "") for device in assign_in_turn(len(costs.inv), devices.inv)],
        trans=assign_in_turn(len(costs.blocks), devices.trans),
    )


STRATEGIES: Mapping[str | None, Callable[[PlacementCosts, Devices], Placement]] = (
    types.MappingProxyType({None: place_by_cost, "round_robin": place_in_turn})
)


if not TYPE_CHECKING:
    __getattr__ = finder(__name__)
