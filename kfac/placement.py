"""Placement: the device of each part of the work.

Three kinds of work are placed: moving averages, inverses, and products with blocks. They are placed
either by cost, so that all devices finish at about the same time and need about as many bytes, or
in turn. The second moments of a tower's examples need no placement: each tower computes its own
share of all of them.
"""

import itertools
import types
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import NamedTuple, TypeVar

from kfac.fisher_blocks.base import FisherBlock
from kfac.fisher_factors.base import FisherFactor

_Key = TypeVar("_Key", bound=Hashable)

SLACK = 0.02
"""Part of the largest load that balancing may add, or leave above the mean, to move less data."""


class Place(NamedTuple):
    """The device of one factor's averages or inverses.

    Attributes:
      compute: Device that does the work; "" means no preference.
      variables: Device of the variables; "" leaves it to the surrounding device scope.
    """

    compute: str
    variables: str


class Devices(NamedTuple):
    """The user's choice of devices, and the devices of the layers.

    Attributes:
      cov: Devices for moving averages; None or an empty list means no choice.
      inv: Devices for inverses; None or an empty list means no choice.
      trans: Devices for products with blocks; None or an empty list means no choice.
      layers: Devices on which registered tensors are computed; "" where that is not known.
    """

    cov: Sequence[str] | None
    inv: Sequence[str] | None
    trans: Sequence[str] | None
    layers: Sequence[str]


class PlacementCosts(NamedTuple):
    """Costs of averages and inverses.

    Attributes:
      cov: Bytes of each factor's average. The time to update it is proportional to them.
      inv: Cost of each factor's inverses, in multiplications or any other unit.
      blocks: Positions of the factors of each block.
      inv_bytes: Bytes of each factor's inverses.
    """

    cov: Sequence[int]
    inv: Sequence[float]
    blocks: Sequence[Sequence[int]]
    inv_bytes: Sequence[int]


class Placement(NamedTuple):
    """The devices of all parts of the work.

    Attributes:
      cov: Place of each factor's average.
      inv: Place of each factor's inverses.
      trans: Device of each block's products; "" means no preference.
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
        cov=[factor.cov_bytes for factor in factors],
        inv=[factor.inverse_cost for factor in factors],
        blocks=[[number[factor] for factor in block.factors] for block in blocks],
        inv_bytes=[factor.inverse_bytes for factor in factors],
    )


def distinct(devices: Iterable[_Key]) -> tuple[_Key, ...]:
    """Returns the different devices in order of first appearance."""
    return tuple(dict.fromkeys(devices))


def assign_by_cost(costs: Sequence[float], devices: Sequence[_Key]) -> list[_Key]:
    """Spreads work over devices: largest piece first, each to the least loaded device.

    Deterministic: of equal costs the lower index comes first, of equal loads the earlier device.

    Args:
      costs: Cost of each piece of work, in any unit.
      devices: At least one device; or numbers of workers, or of steps.

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
    chosen: dict[int, _Key] = {}
    for index in sorted(range(len(costs)), key=lambda i: (-costs[i], i)):
        device = min(load, key=lambda name: load[name])
        load[device] += costs[index]
        chosen[index] = device
    return [chosen[index] for index in range(len(costs))]


def gather_blocks(
    chosen: Sequence[str], costs: Sequence[float], blocks: Sequence[Sequence[int]]
) -> list[str]:
    """Moves cheap inverses to the costliest inverse of their block, where products need them.

    An inverse moves unless the load of that device would exceed the largest load by more than
    `SLACK`. A factor of several blocks follows the first of them.

    Args:
      chosen: The device of each factor's inverses.
      costs: Cost of each factor's inverses.
      blocks: Positions of the factors of each block.

    Returns:
      The device of each factor's inverses after the moves.
    """
    gathered = list(chosen)
    load = _loads(chosen, costs)
    limit = (1 + SLACK) * max(load.values(), default=0.0)
    settled: set[int] = set()
    for block in blocks:
        home = gathered[max(block, key=lambda index: costs[index])]
        for index in block:
            fits = load[home] + costs[index] <= limit
            if gathered[index] != home and index not in settled and fits:
                load[gathered[index]] -= costs[index]
                load[home] += costs[index]
                gathered[index] = home
        settled.update(block)
    return gathered


def balance_bytes(
    homes: Sequence[str], sizes: Sequence[float], kept: Mapping[str, float]
) -> list[str]:
    """Spreads averages so that devices need about as many bytes, and few averages leave home.

    All averages start at home. While the fullest device exceeds the mean by more than `SLACK`, one
    average moves from it to the emptiest device: the one whose move leaves the fuller of the two
    with the fewest bytes. The moves also end when none of them makes the fuller of the two less
    full.

    Args:
      homes: Home of each average: the device of its inverses, where using it needs no transfer.
      sizes: Bytes of each average, including the bytes that are on its device for it alone.
      kept: Bytes that each device keeps besides the averages; has all devices.

    Returns:
      The device of each average.
    """
    chosen = list(homes)
    load = dict(kept)
    for home, size in zip(homes, sizes, strict=True):
        load[home] += size
    limit = (1 + SLACK) * sum(load.values()) / len(load)
    while True:
        fullest, emptiest = max(load, key=lambda d: load[d]), min(load, key=lambda d: load[d])
        gap = load[fullest] - load[emptiest]
        movable = [i for i, at in enumerate(chosen) if at == fullest and 0 < sizes[i] < gap]
        if load[fullest] <= limit or not movable:
            return chosen
        best = min(movable, key=lambda i: abs(gap - 2 * sizes[i]))
        chosen[best] = emptiest
        load[fullest] -= sizes[best]
        load[emptiest] += sizes[best]


def _loads(chosen: Sequence[str], costs: Sequence[float]) -> dict[str, float]:
    """Returns the sum of the costs of each device that was chosen."""
    load = dict.fromkeys(chosen, 0.0)
    for device, cost in zip(chosen, costs, strict=True):
        load[device] += cost
    return load


def assign_in_turn(count: int, devices: Sequence[str] | None) -> list[str]:
    """Returns the device of each piece of work: piece i goes to device i modulo their number.

    Args:
      count: Number of pieces of work.
      devices: The devices; None or an empty list means no preference.
    """
    return list(itertools.islice(itertools.cycle(devices or [""]), count))


def place_by_cost(costs: PlacementCosts, devices: Devices) -> Placement:
    """Balances the cost of inverses, and the bytes of averages, inverses and arriving sums.

    Devices that the user names also hold the variables. If any are named for averages or inverses,
    the two are balanced separately, each by its own cost. If none are named, the work goes to the
    devices of the layers. The variables follow, unless a layer's device names a job: in a cluster
    the surrounding device scope decides, because variables belong on the parameter servers.
    Products are computed with the costliest inverse of the block, unless devices are named for
    them.
    """
    # A block of unknown device must not keep others from using the known devices.
    layers = [device for device in distinct(devices.layers) if device] or [""]
    inv = assign_by_cost(costs.inv, devices.inv or layers)
    if devices.cov or devices.inv:
        cov = assign_by_cost(costs.cov, devices.cov or layers)
    else:
        inv = gather_blocks(inv, costs.inv, costs.blocks)
        kept = dict.fromkeys(layers, 0) | _loads(inv, costs.inv_bytes)
        # A sum for an average arrives from each other device as a triangle, half its size.
        sizes = [(1 + (len(layers) - 1) / 2) * size for size in costs.cov]
        cov = balance_bytes(inv, sizes, kept)
    return Placement(
        cov=_places(cov, devices.cov),
        inv=_places(inv, devices.inv),
        trans=_places_of_products(costs, devices.trans, inv),
    )


def _places_of_products(
    costs: PlacementCosts, devices: Sequence[str] | None, inv: Sequence[str]
) -> list[str]:
    if not devices:
        return [inv[max(block, key=lambda i: costs.inv[i])] for block in costs.blocks]
    products = [sum(costs.cov[i] for i in block) for block in costs.blocks]
    return assign_by_cost(products, devices)


def _places(chosen: Sequence[str], named: Sequence[str] | None) -> list[Place]:
    """Returns places whose variables are on the device of the work if the user named it."""
    return [Place(each, "" if "/job:" in each and not named else each) for each in chosen]


def place_in_turn(costs: PlacementCosts, devices: Devices) -> Placement:
    """Assigns factors, and blocks, to the named devices one after another.

    The variables of averages are on their device; those of inverses are left to the surrounding
    device scope. If no devices are named, there is no preference.
    """
    return Placement(
        cov=[Place(device, device) for device in assign_in_turn(len(costs.cov), devices.cov)],
        inv=[Place(device, "") for device in assign_in_turn(len(costs.inv), devices.inv)],
        trans=assign_in_turn(len(costs.blocks), devices.trans),
    )


STRATEGIES: Mapping[str | None, Callable[[PlacementCosts, Devices], Placement]] = (
    types.MappingProxyType({None: place_by_cost, "round_robin": place_in_turn})
)
