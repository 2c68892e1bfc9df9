"""What `benchmarks.scaling.cluster_points` measures: the cases, and what was found in each.

Nothing but values. The measuring program, its processes and `benchmarks.scaling` share them.
"""

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

LOCAL_MODES = ("local", "local kfac")
"""Each worker trains variables of its own: nothing is exchanged."""
KFAC_MODES = ("shared", "chief_worker", "dedicated_workers")
"""K-FAC over workers: what `kfac.WorkerRole` calls strategies."""
MODES = (*LOCAL_MODES, "asynchronous", "synchronous", "averaging", *KFAC_MODES)

NUMBER_BYTES = 4
_TINY_WIDTH = 8
_TINY_WORKERS = 2
_LEAST_WORKERS = {"dedicated_workers": 3}


@dataclasses.dataclass(frozen=True)
class Case:
    """One thing to measure: a chain of square layers, trained by some workers.

    Attributes:
      mode: One of `MODES`.
      width: Units of each layer.
      layers: How many.
      batch: Examples of a worker's step.
      workers: How many train, the chief among them.
      interval: Steps between two averagings, or between two inverses of K-FAC.
    """

    mode: str
    width: int
    layers: int
    batch: int
    workers: int
    interval: int = 10

    @property
    def name(self) -> str:
        """A name that no other case has."""
        name = "-".join(map(str, dataclasses.astuple(self)))
        return name.replace(" ", "-").replace("_", "-")

    @property
    def is_exchanged(self) -> bool:
        """Whether there is anything on the parameter server."""
        return self.mode not in LOCAL_MODES

    @property
    def is_kfac(self) -> bool:
        """Whether the optimizer is K-FAC."""
        return self.mode in ("local kfac", *KFAC_MODES)

    @property
    def waits(self) -> bool:
        """Whether the workers wait for each other in every step."""
        return self.mode in ("synchronous", *KFAC_MODES)

    @property
    def gradients(self) -> int:
        """How many workers, the first ones, compute gradients."""
        return -(-3 * self.workers // 5) if self.mode == "dedicated_workers" else self.workers

    @property
    def tiny(self) -> "Case":
        """The same with variables and a batch so small that only the messages count."""
        return dataclasses.replace(self, width=_TINY_WIDTH, batch=1)

    @property
    def is_tiny(self) -> bool:
        """Whether it is such a case."""
        return self.width == _TINY_WIDTH

    @property
    def parameters(self) -> int:
        """Bytes of all parameters."""
        return NUMBER_BYTES * self.layers * self.width**2

    @property
    def factors(self) -> int:
        """Bytes of all of K-FAC's factors: two of each layer, as wide as the layer."""
        return 2 * self.parameters


class Point(NamedTuple):
    """What was found in a case. All values but the last are per gradient of a worker.

    Attributes:
      case: The case.
      seconds: From one gradient of a worker to its next one.
      worker: CPU seconds of all workers' processes, divided by all their gradients.
      server: CPU seconds of the parameter server's.
      sent: Bytes over the loopback interface, whoever sent them.
      others: Cores that other programs of the machine took.
    """

    case: Case
    seconds: float
    worker: float
    server: float
    sent: float
    others: float

    def as_json(self) -> dict[str, Any]:
        """Returns what JSON can hold."""
        return {**self._asdict(), "case": dataclasses.asdict(self.case)}

    @classmethod
    def from_json(cls, found: dict[str, Any]) -> "Point":
        """Undoes `as_json`."""
        return cls(**{**found, "case": Case(**found["case"])})


SETTINGS = (
    {"width": 256, "layers": 4, "batch": 512},
    {"width": 512, "layers": 4, "batch": 16},
    {"width": 32, "layers": 24, "batch": 64},
)
"""Mostly computing; mostly bytes; mostly requests."""


def all_cases(workers: int) -> Iterator[Case]:
    """Yields the cases that `benchmarks.scaling` needs; what is set side by side comes together.

    Args:
      workers: The greatest number of workers, ≥ 1.
    """
    first, second, third = SETTINGS
    for setting in (first, second, third):
        for mode in ("local", "asynchronous", "synchronous"):
            yield from _of(mode, setting, workers)
            if setting is not first:  # It has as many layers as the second.
                yield from _tiny(mode, setting, workers)
    yield from (*_of("averaging", second, workers), *_tiny("averaging", second, workers))
    for mode in ("local kfac", *KFAC_MODES):
        yield from (*_of(mode, first, workers), *_tiny(mode, first, workers))


def _of(mode: str, setting: Mapping[str, int], workers: int) -> Iterator[Case]:
    for count in range(_LEAST_WORKERS.get(mode, 1), workers + 1):
        yield Case(mode, workers=count, **setting)


def _tiny(mode: str, setting: Mapping[str, int], workers: int) -> Iterator[Case]:
    """With one worker and with two, or the least number of them that the mode allows."""
    most = 1 if mode in LOCAL_MODES else _LEAST_WORKERS.get(mode, _TINY_WORKERS)
    yield from (case.tiny for case in _of(mode, setting, min(workers, most)))
