"""Bytes that K-FAC keeps on each device, by the static shapes of a training step's graph.

Averages, inverses and velocities are variables: they stay between steps. Packed sums are tensors
that live for a part of a step: each tower packs its sum of a second moment into a triangle, and
sends it to the device of the average. The bytes of a device are those of all sums of a step, as if
they were there at the same time.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from benchmarks.device_traffic.placement import requested_device
from benchmarks.device_traffic.traffic import Crossing, measure
from benchmarks.kfac_memory.training_step import TrainingStep

Factor = Any
_STATISTICS = "/update_averages/"


class FactorMemory(NamedTuple):
    """Memory of one factor, and where it is.

    Attributes:
      name: Path of its variables below `kfac/`.
      rows: Rows of the matrix.
      average: Device of its average.
      inverse: Device of its inverses; that of its average if it keeps none.
      average_bytes: Bytes of its average.
      inverse_bytes: Bytes of its inverses.
      cost: Cost of its inverses, in multiplications.
    """

    name: str
    rows: int
    average: str
    inverse: str
    average_bytes: int
    inverse_bytes: int
    cost: float

    @property
    def kept(self) -> int:
        """Bytes of its average and its inverses."""
        return self.average_bytes + self.inverse_bytes


class DeviceMemory(NamedTuple):
    """Memory and work of K-FAC on one device.

    Attributes:
      averages: Bytes of averages.
      inverses: Bytes of inverses.
      velocities: Bytes of the optimizer's velocities.
      received: Bytes of packed sums that it receives in a step that updates the averages.
      sent: Bytes of packed sums that it sends in such a step.
      fetched: Bytes of averages that it receives when inverses are computed.
      cost: Cost of computing its inverses, in multiplications.
    """

    averages: int = 0
    inverses: int = 0
    velocities: int = 0
    received: int = 0
    sent: int = 0
    fetched: int = 0
    cost: float = 0.0

    @property
    def kept(self) -> int:
        """Bytes of averages and inverses."""
        return self.averages + self.inverses

    @property
    def needed(self) -> int:
        """Bytes of averages, inverses and received sums, as if all sums came at the same time."""
        return self.kept + self.received


class Memory(NamedTuple):
    """Memory of K-FAC in a training step, by device, sorted, and by factor as registered."""

    devices: dict[str, DeviceMemory]
    factors: list[FactorMemory]


def memory(step: TrainingStep) -> Memory:
    """Returns the memory of K-FAC by device."""
    factors = [_of_factor(factor) for factor in step.optimizer.factors]
    velocities = _velocities(step)
    sums = packed_sums(measure(step.operations, step.fetches).crossings)
    names = {*velocities, *(name for each in factors for name in (each.average, each.inverse))}
    devices = {
        name: DeviceMemory(
            averages=sum(each.average_bytes for each in factors if each.average == name),
            inverses=sum(each.inverse_bytes for each in factors if each.inverse == name),
            velocities=velocities.get(name, 0),
            received=sum(each.bytes or 0 for each in sums if each.target == name),
            sent=sum(each.bytes or 0 for each in sums if each.source == name),
            fetched=sum(
                each.average_bytes for each in factors if each.inverse == name != each.average
            ),
            cost=sum(each.cost for each in factors if each.inverse == name),
        )
        for name in sorted(names)
    }
    return Memory(devices, factors)


def packed_sums(crossings: Iterable[Crossing]) -> list[Crossing]:
    """Returns the sums of second moments among the tensors that cross between GPUs."""
    return [each for each in crossings if each.route == "GPU>GPU" and _STATISTICS in each.name]


def by_rows(factors: Sequence[FactorMemory]) -> dict[int, list[FactorMemory]]:
    """Returns the factors by their number of rows, those with the most bytes in all first."""
    groups: dict[int, list[FactorMemory]] = {}
    for factor in factors:
        groups.setdefault(factor.rows, []).append(factor)

    def kept(rows: int) -> int:
        return sum(each.kept for each in groups[rows])

    return {rows: groups[rows] for rows in sorted(groups, key=kept, reverse=True)}


def _of_factor(factor: Factor) -> FactorMemory:
    average, inverses = factor.cov_variables[:1], [slot.variables[0] for slot in factor.inverses]
    (at,) = _bytes_by_device(average)
    return FactorMemory(
        name=factor.name,
        rows=factor.dimension,
        average=at,
        inverse=next(iter(_bytes_by_device(inverses)), at),
        average_bytes=sum(_bytes_by_device(average).values()),
        inverse_bytes=sum(_bytes_by_device(inverses).values()),
        cost=factor.inverse_cost if inverses else 0.0,
    )


def _velocities(step: TrainingStep) -> Mapping[str, int]:
    optimizer = step.optimizer
    slots = [
        optimizer.get_slot(variable, name)
        for name in optimizer.get_slot_names()
        for variable in step.variables
    ]
    return _bytes_by_device(slots)


def _bytes_by_device(variables: Iterable[Any]) -> dict[str, int]:
    found: dict[str, int] = {}
    for variable in variables:
        device = requested_device(variable.op) or "GPU:0"
        size = variable.shape.num_elements() * variable.dtype.base_dtype.size
        found[device] = found.get(device, 0) + size
    return found
