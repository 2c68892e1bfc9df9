"""Run times of operations, and a table of the costliest ones.

Owns the reading of the step statistics that TensorFlow collects in a run with full trace.
`profiling.py` chooses these runs and prints the table.
"""

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from replicate._types import Graph

SHOWN_OPS = 10
"""Rows of the table."""


class OpCost(NamedTuple):
    """Cost of one operation on one device, such as "CPU:0", over all runs."""

    name: str
    kind: str
    device: str
    runs: int
    microseconds: int


def add_costs(costs: dict[tuple[str, str], OpCost], step_stats: Any, graph: Graph) -> None:
    """Adds the times of one run with full trace to the costs by operation and device, in place."""
    devices = {stats.device: stats.node_stats for stats in step_stats.dev_stats}
    for device, nodes in devices.items():
        if _is_repeated(device, devices):
            continue
        for node in nodes:
            name = node.node_name.partition(":")[0]
            key = name, _short(device)
            old = costs.get(key) or OpCost(
                name, _kind(name, node.timeline_label, graph), key[1], 0, 0
            )
            time = max(node.op_end_rel_micros - node.op_start_rel_micros, 0)
            costs[key] = old._replace(runs=old.runs + 1, microseconds=old.microseconds + time)


def cost_table(costs: list[OpCost], steps: int) -> str:
    """Returns the costliest operations as a table for a terminal."""
    total = max(sum(cost.microseconds for cost in costs), 1)
    shown = sorted(costs, key=lambda cost: -cost.microseconds)[:SHOWN_OPS]
    rows = [
        (
            cost.name,
            cost.kind,
            cost.device,
            str(cost.runs),
            f"{cost.microseconds / 1000:.3f}",
            f"{cost.microseconds / total:.1%}",
        )
        for cost in shown
    ]
    titles = ("operation", "type", "device", "count", "total ms", "share")
    widths = [max(map(len, column)) for column in zip(titles, *rows, strict=True)]
    lines = [
        "  ".join(
            cell.ljust(width) if place < 3 else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in (titles, *rows)
    ]
    times = f"{len(costs)} operations took {total / 1000:.3f} ms in {steps} steps"
    return "\n".join([f"{times}; the costliest:", *lines])


def _is_repeated(device: str, devices: Mapping[str, Any]) -> bool:
    """Returns True if another entry, "stream:all", has the times of the kernels of a GPU."""
    kernels = any(
        other.endswith("/stream:all") and _short(other) == _short(device) for other in devices
    )
    return kernels and not device.endswith("/stream:all")


def _short(device: str) -> str:
    """Returns type and number of a device, without its process."""
    found = re.search(r"(CPU|GPU|TPU):\d+", device.upper())
    return device if found is None else found[0]


def _kind(name: str, label: str, graph: Graph) -> str:
    """Returns the type of an operation from the graph, or else from its label."""
    try:
        return str(graph.get_operation_by_name(name).type)
    except (KeyError, ValueError):
        told = re.search(r" = (\w+)\(", label)
        return told[1] if told else "-"
