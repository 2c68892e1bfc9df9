"""Simulator of processes that compete for shared resources such as cores and links.

Each process repeats the phases of its round. A phase takes its length if nothing else runs, and
demands a share of some resources during that time. If the demand for a resource exceeds its
capacity, all phases that use it slow down by the same factor. Some processes wait for each other at
the end of a round, and for a closing part that one process does. Time advances from the end of one
phase to the next, and nothing is random.

This module knows nothing of TensorFlow or training. `benchmarks.scaling.training_plans` defines the
phases of training.
"""

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

Floats: TypeAlias = npt.NDArray[np.float64]

_WARM_UP = 3
"""Rounds before those that are timed."""
_ROUNDING = 1e-9


class Phase(NamedTuple):
    """A part of a round.

    Attributes:
      seconds: Length if nothing else runs.
      demands: Seconds of one unit of each resource: CPU seconds of cores, transfer seconds of a
        link.
    """

    seconds: float
    demands: Mapping[str, float]


class Process(NamedTuple):
    """Group of equal processes.

    Attributes:
      phases: Phases of a round, in order.
      number: Number of processes.
      waits: True if they wait at the end of a round for all other waiting processes and for the
        closing part. Processes that do not wait start at evenly spread places of their round.
    """

    phases: Sequence[Phase]
    number: int = 1
    waits: bool = False


def seconds_per_round(
    processes: Sequence[Process],
    capacities: Mapping[str, float],
    closing: Sequence[Phase] = (),
    rounds: int = 4,
) -> float:
    """Returns the mean seconds per round of the first group of processes.

    Args:
      processes: All groups. The rounds of the first one are timed.
      capacities: Units of each resource: cores of a machine, 1 for a link. May be infinite.
      closing: Phases that run once all waiting processes have finished their round.
      rounds: Timed rounds of each process of the first group, ≥ 1.

    Raises:
      ValueError: A round takes no time, or a phase demands a resource that is not in `capacities`.
    """
    run = _Run(processes, capacities, closing)
    first = processes[0].number
    while run.finished < _WARM_UP * first:
        run.advance()
    start, done = run.now, run.finished
    while run.finished < done + rounds * first:
        run.advance()
    return (run.now - start) * first / (run.finished - done)


class _Run:
    """State of a simulation: the place of each process in its round.

    Attributes:
      now: Seconds since the start.
      finished: Finished rounds of the first group.
    """

    def __init__(
        self,
        processes: Sequence[Process],
        capacities: Mapping[str, float],
        closing: Sequence[Phase],
    ) -> None:
        kinds = [[phase for phase in p.phases if phase.seconds > 0] for p in processes]
        _check(kinds, closing, capacities)
        kinds.append([phase for phase in closing if phase.seconds > 0])
        counts = [*(process.number for process in processes), 1]
        self._kind = np.repeat(np.arange(len(kinds)), counts)
        self._waits = np.repeat([*(process.waits for process in processes), False], counts)
        self._closer = len(self._kind) - 1
        self._has_closing = bool(kinds[-1])
        self._lengths = np.array([len(phases) for phases in kinds])
        self._capacity = np.array(list(capacities.values()))[:, np.newaxis]
        self._seconds = np.ones([len(kinds), max(1, *self._lengths)])
        self._width = np.zeros([len(capacities), *self._seconds.shape])
        for kind, phases in enumerate(kinds):
            for place, phase in enumerate(phases):
                self._seconds[kind, place] = phase.seconds
                for row, name in enumerate(capacities):
                    share = phase.demands.get(name, 0.0) / phase.seconds
                    self._width[row, kind, place] = share
        self._runs = np.ones(len(self._kind), bool)
        self._runs[self._closer] = False
        self._place = np.zeros(len(self._kind), np.int64)
        self._left = self._seconds[self._kind, self._place]
        self._spread(counts)
        self.now, self.finished = 0.0, 0

    def advance(self) -> None:
        """Advances to the next end of a phase."""
        slow = self._slowdown()
        pace = np.where(self._runs, self._left * slow, np.inf)
        step = float(pace.min())
        self.now += step
        self._left -= np.where(self._runs, step / slow, 0.0)
        ended = self._runs & (pace <= step * (1 + _ROUNDING))
        self._place[ended] += 1
        is_over = ended & (self._place == self._lengths[self._kind])
        self._place[is_over] = 0
        self._left[ended] = self._seconds[self._kind[ended], self._place[ended]]
        self._end_rounds(is_over)

    def _slowdown(self) -> Floats:
        """Returns the slowdown factor of each process, ≥ 1."""
        width = self._width[:, self._kind, self._place] * self._runs
        factors = np.maximum(1.0, width.sum(axis=1, keepdims=True) / self._capacity)
        slow: Floats = np.where(width > 0, factors, 1.0).max(axis=0, initial=1.0)
        return slow

    def _end_rounds(self, is_over: npt.NDArray[np.bool_]) -> None:
        waits = is_over & self._waits
        self._runs[waits] = False
        self._count(is_over & ~self._waits)
        if is_over[self._closer]:
            self._runs[self._closer] = False
            self._let_go()
        elif waits.any() and not self._runs[self._waits].any():
            if self._has_closing:
                self._runs[self._closer] = True
            else:
                self._let_go()

    def _let_go(self) -> None:
        self._runs[self._waits] = True
        self._count(self._waits)

    def _count(self, done: npt.NDArray[np.bool_]) -> None:
        self.finished += int(np.count_nonzero(done & (self._kind == 0)))

    def _spread(self, counts: Sequence[int]) -> None:
        """Starts the processes that do not wait at different places of their rounds."""
        asked = (self._width * self._seconds / self._capacity[:, np.newaxis]).max(axis=0, initial=0)
        busy = np.maximum(self._seconds, np.array(counts)[:, np.newaxis] * asked)
        parts = np.concatenate([np.arange(count) / count for count in counts])
        for index in np.flatnonzero(~self._waits & self._runs):
            kind = self._kind[index]
            ends = np.cumsum(busy[kind, : self._lengths[kind]])
            begin = parts[index] * ends[-1]
            place = int(np.searchsorted(ends, begin, side="right"))
            left = (ends[place] - begin) / busy[kind, place]
            self._place[index], self._left[index] = place, left * self._seconds[kind, place]


def _check(
    kinds: Sequence[Sequence[Phase]], closing: Sequence[Phase], capacities: Mapping[str, float]
) -> None:
    if not all(math.fsum(phase.seconds for phase in phases) > 0 for phases in kinds):
        raise ValueError(
            "Cannot simulate: a process has no phase of more than 0 seconds, so its rounds "
            "take no time. Give it one."
        )
    asked = {name for phases in (*kinds, closing) for phase in phases for name in phase.demands}
    if unknown := sorted(asked - set(capacities)):
        raise ValueError(
            f"Cannot simulate: phases ask for {', '.join(unknown)}, but capacities has "
            f"{', '.join(capacities) or 'nothing'}. Add what is missing."
        )
