"""Idle time of devices in a traced step: the gaps between the ops that run on them."""

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

BEGIN = "begin of the step"
END = "end of the step"

_WAITING = re.compile(r" = (_Recv|_HostRecv|_Send|_HostSend)\(")
"""Ops that wait for another device. A device that runs nothing else is idle."""

_KERNELS = re.compile(r"/stream:|/memcpy")
"""Entries of a trace with the kernels and copies of a GPU."""


class Interval(NamedTuple):
    """Run of an op."""

    start: int
    end: int
    op: str


class Gap(NamedTuple):
    """Time in which a device runs nothing."""

    start: int
    end: int
    before: str
    after: str

    @property
    def length(self) -> int:
        """Nanoseconds."""
        return self.end - self.start


class DeviceTrace(NamedTuple):
    """Intervals of a device in a step.

    Attributes:
      intervals: Runs of ops, or of kernels.
      has_kernels: True if they are kernels and copies of a GPU; False if they are ops, which on a
        GPU end when their kernels are launched.
    """

    intervals: list[Interval]
    has_kernels: bool


def read_trace(step_stats: Any) -> dict[str, DeviceTrace]:
    """Returns the intervals of each device, such as "GPU:0", in a run with full trace."""
    ops: dict[str, list[Interval]] = defaultdict(list)
    kernels: dict[str, list[Interval]] = defaultdict(list)
    for stats in step_stats.dev_stats:
        found = re.search(r"(CPU|GPU):\d+", stats.device.upper())
        if found is not None:
            chosen = kernels if _KERNELS.search(stats.device.lower()) else ops
            chosen[found[0]] += [
                _interval(node)
                for node in stats.node_stats
                if not _WAITING.search(node.timeline_label)
            ]
    names = sorted({*ops, *kernels})
    return {
        name: DeviceTrace(kernels[name], True)
        if kernels.get(name)
        else DeviceTrace(ops[name], False)
        for name in names
    }


def span(trace: Mapping[str, DeviceTrace]) -> tuple[int, int]:
    """Returns the first start and the last end of all devices, in nanoseconds."""
    intervals = [interval for device in trace.values() for interval in device.intervals]
    return (
        min(interval.start for interval in intervals),
        max(interval.end for interval in intervals),
    )


def find_gaps(intervals: Sequence[Interval], start: int, end: int) -> list[Gap]:
    """Returns the gaps between the intervals, from `start` to `end`, in order.

    The length of the union of the intervals is `end - start` minus the lengths of the gaps.
    """
    gaps = []
    latest = Interval(start, start, BEGIN)
    for interval in (*sorted(intervals), Interval(end, end, END)):
        if interval.start > latest.end:
            gaps.append(Gap(latest.end, interval.start, latest.op, interval.op))
        if interval.end > latest.end or latest.op == BEGIN:
            latest = interval
    return gaps


def _interval(node: Any) -> Interval:
    """Reads the times of a node: nanoseconds, or microseconds where a GPU tells only these."""
    origin = node.all_start_nanos or 1000 * node.all_start_micros
    start = node.op_start_rel_nanos or 1000 * node.op_start_rel_micros
    end = node.op_end_rel_nanos or 1000 * node.op_end_rel_micros
    return Interval(origin + start, origin + max(start, end), node.node_name)
