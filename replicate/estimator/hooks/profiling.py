"""ProfileHook: measures the time of a few training steps.

Owns a hook that records steps in two ways. First it writes a trace for TensorBoard's profiler
(`tensorboard --logdir MODEL_DIR`, with the plugin installed). Then it measures each operation in as
many further steps, since TensorFlow cannot do both at once, and prints the costliest operations.
`RunConfig(profile_steps=...)` turns it on; other steps cost nothing.
"""

import re
import sys
from collections.abc import Mapping
from typing import Any, NamedTuple, TextIO

import tensorflow as tf
from tqdm import tqdm

from replicate._types import Graph
from replicate.estimator.files import OptionalFiles
from replicate.estimator.hooks.readings import StepReadings
from replicate.estimator.hooks.scheduled_hook import NextRun, ScheduledHook
from replicate.estimator.log import log

v1 = tf.compat.v1


class ProfileHook(ScheduledHook):
    """Traces steps, then measures the operations of as many steps, and prints the costliest."""

    def __init__(
        self,
        readings: StepReadings,
        log_dir: str,
        steps: tuple[int, int],
        stream: TextIO | None = None,
    ):
        """Starts nothing yet. `steps` are the first and the last global step to trace."""
        self._readings = readings
        self._log_dir = log_dir
        self._first, self._last = steps
        self._end = 2 * self._last - self._first + 1
        self._stream = stream
        self._optional = OptionalFiles()
        self._is_tracing = False
        self._marker: Any = None
        self._graph: Graph = None
        self._costs: dict[tuple[str, str], OpCost] = {}
        self._measured_steps = 0

    def next_run(self) -> NextRun:
        """Returns the next step to record."""
        next_step = max(self._first, self._readings.step + 1)
        return NextRun(step=next_step) if next_step <= self._end else NextRun()

    def before_run(self, run_context: Any) -> Any:
        """Starts the trace, or asks for the times of a step."""
        step = self._readings.step + 1
        self._graph = run_context.session.graph
        if self._first <= step <= self._last:
            self._start()
            self._marker = tf.profiler.experimental.Trace("train", step_num=step, _r=1)
            self._marker.__enter__()
        elif self._last < step <= self._end:
            self._stop()
            options = v1.RunOptions(trace_level=v1.RunOptions.FULL_TRACE)
            return v1.train.SessionRunArgs([], options=options)
        return None

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Adds the times of a step; ends the trace or the measurement after its last step."""
        del run_context
        self._end_marker()
        if self._readings.step >= self._last:
            self._stop()
        if run_values.run_metadata is not None:
            self._measured_steps += 1
            add_costs(self._costs, run_values.run_metadata.step_stats, self._graph)
        if self._readings.step >= self._end:
            self._print()

    def close(self) -> None:
        """Ends the trace, and prints the table of the steps measured so far."""
        self._end_marker()
        self._stop()
        self._print()

    def _start(self) -> None:
        if self._is_tracing:
            return
        try:
            tf.profiler.experimental.start(self._log_dir)
            self._is_tracing = True
        except tf.errors.AlreadyExistsError:
            log.warning("Cannot trace steps: another profiler runs in this process.")

    def _stop(self) -> None:
        if self._is_tracing:
            self._is_tracing = False
            with self._optional.writing(f"{self._log_dir.rstrip('/')}/plugins/profile"):
                tf.profiler.experimental.stop()
                log.info("Wrote a trace: tensorboard --logdir %s", self._log_dir)

    def _end_marker(self) -> None:
        if self._marker is not None:
            self._marker.__exit__(None, None, None)
            self._marker = None

    def _print(self) -> None:
        if self._costs:
            text = cost_table(list(self._costs.values()), self._measured_steps)
            tqdm.write(text, file=self._stream or sys.stderr)
            self._costs = {}


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
