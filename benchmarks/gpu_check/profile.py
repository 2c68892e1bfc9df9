"""Idle time of the devices in traced steps of towers, with momentum SGD and with K-FAC.

Tracing itself takes time, so devices are less idle in steps that are not traced.
"""

import heapq
import statistics
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from benchmarks import harness
from benchmarks.gpu_check import idle_time
from benchmarks.gpu_check.devices import Devices
from benchmarks.gpu_check.models import BATCH_SIZE
from benchmarks.gpu_check.outcome import Cell, Outcome, Table, judge
from benchmarks.gpu_check.training import INVERT_EVERY, OPTIMIZERS, Training
from benchmarks.tower_step import tower_models

STEPS = 20
"""Traced steps."""

WARM_UP = 2 * INVERT_EVERY
"""Steps before, without a trace."""

SHOWN_GAPS = 5
"""Gaps of each optimizer that are shown."""

OPTIMIZERS_SHOWN = ("momentum", "K-FAC")


class Step(NamedTuple):
    """A traced step.

    Attributes:
      milliseconds: From the first start of an op to the last end.
      has_kernels: True for each device whose kernels were traced, False for others.
      idle_shares: Idle share of the time, by device.
      gaps: Gaps by device.
    """

    milliseconds: float
    has_kernels: Mapping[str, bool]
    idle_shares: Mapping[str, float]
    gaps: Mapping[str, Sequence[idle_time.Gap]]


Steps: TypeAlias = Mapping[str, Sequence[Step]]
"""Traced steps by optimizer."""


def trace(devices: Devices, steps: int = STEPS, side: int = 28) -> Outcome:
    """Traces the ConvNet, each optimizer's steps. Fails if a device of a tower runs no op."""
    model = tower_models.ConvNet(side, BATCH_SIZE)
    stats = {
        name: _trace(Training(model, devices.names, OPTIMIZERS[name]), steps)
        for name in OPTIMIZERS_SHOWN
    }
    unused = [f"{device} with {name}" for name in stats for device in _unused(stats[name], devices)]
    found = {name: [_read(each) for each in stats[name]] for name in stats}
    summary = f"no op ran on {', '.join(unused)}" if unused else _summary(found, devices)
    return judge(not unused, summary, _share_table(found), _gap_table(found))


def _trace(training: Training, steps: int) -> list[Any]:
    training.run(WARM_UP)
    training.traced_step()  # The first trace starts the profiler of the GPUs.
    return [training.traced_step() for _ in range(steps)]


def _unused(stats: Sequence[Any], devices: Devices) -> list[str]:
    """Returns the devices of towers on which no step ran an op."""
    used = {
        device.device.lower().rpartition("/device:")[2]
        for step_stats in stats
        for device in step_stats.dev_stats
        if device.node_stats
    }
    return [name for name in devices.names if name.removeprefix("/") not in used]


def _read(step_stats: Any) -> Step:
    found = idle_time.read_trace(step_stats)
    start, end = idle_time.span(found)
    gaps = {
        name: idle_time.find_gaps(device.intervals, start, end) for name, device in found.items()
    }
    return Step(
        (end - start) / 1e6,
        {name: device.has_kernels for name, device in found.items()},
        {
            name: sum(gap.length for gap in of_device) / (end - start)
            for name, of_device in gaps.items()
        },
        gaps,
    )


def _shares(steps: Sequence[Step], device: str) -> list[float]:
    return [step.idle_shares[device] for step in steps if device in step.idle_shares]


def _summary(found: Steps, devices: Devices) -> str:
    """Returns the median idle shares of the towers' devices, by optimizer."""
    kind = "GPU" if devices.are_gpus else "CPU"
    parts = []
    for name, steps in found.items():
        names = [device for device in _device_names(steps) if device.startswith(kind)]
        medians = [statistics.median(_shares(steps, device)) for device in names]
        parts.append(f"{name} {min(medians):.0%} to {max(medians):.0%}")
    return f"idle share of the {kind}s: {', '.join(parts)}"


def _device_names(steps: Sequence[Step]) -> list[str]:
    return sorted({device for step in steps for device in step.idle_shares})


def _share_table(found: Steps) -> Table:
    rows: list[list[Cell]] = []
    for name, steps in found.items():
        span = harness.spread([step.milliseconds for step in steps], 2)
        for device in _device_names(steps):
            shares = [100 * share for share in _shares(steps, device)]
            is_kernels = all(step.has_kernels.get(device, True) for step in steps)
            traced = "kernels" if is_kernels else "ops"
            rows.append([name, span, device, harness.spread(shares, 1), traced])
    title = f"{len(next(iter(found.values())))} traced steps: median [least, most]"
    return Table(title, ("optimizer", "step, ms", "device", "idle, %", "busy with"), rows)


def _gap_table(found: Steps) -> Table:
    rows: list[list[Cell]] = []
    for name, steps in found.items():
        for length, device, number, gap in heapq.nlargest(SHOWN_GAPS, _lengths(steps)):
            rows.append([name, device, number, length / 1e6, gap.before, gap.after])
    columns = ("optimizer", "device", "step", "ms", "after", "before")
    return Table("Longest gaps", columns, rows)


def _lengths(steps: Sequence[Step]) -> Iterator[tuple[int, str, int, idle_time.Gap]]:
    for number, step in enumerate(steps, start=1):
        for device, gaps in step.gaps.items():
            for gap in gaps:
                yield gap.length, device, number, gap
