"""What `benchmarks.cluster_points` measures: the cases, and what was found in each.

Nothing but values. The measuring program, its processes and `benchmarks.scaling` share them.
"""

import dataclasses
from collections.abc import Iterator
from typing import Any, NamedTuple

LOCAL_MODES = ("local", "local kfac")
"""Each worker trains variables of its own: nothing is exchanged."""
MODES = (*LOCAL_MODES, "asynchronous", "synchronous", "averaging", "shared")

NUMBER_BYTES = 4


@dataclasses.dataclass(frozen=True)
class Case:
    """One thing to measure: a chain of square layers, trained by some workers.

    Attributes:
      mode: One of `MODES`; "shared" is K-FAC's.
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
        return "-".join(map(str, dataclasses.astuple(self))).replace(" ", "-")

    @property
    def is_exchanged(self) -> bool:
        """Whether there is anything on the parameter server."""
        return self.mode not in LOCAL_MODES

    @property
    def is_kfac(self) -> bool:
        """Whether the optimizer is K-FAC."""
        return self.mode in ("local kfac", "shared")

    @property
    def waits(self) -> bool:
        """Whether the workers wait for each other in every step."""
        return self.mode in ("synchronous", "shared")

    @property
    def parameters(self) -> int:
        """Bytes of all parameters."""
        return NUMBER_BYTES * self.layers * self.width**2

    @property
    def factors(self) -> int:
        """Bytes of all of K-FAC's factors: two of each layer, as wide as the layer."""
        return 2 * self.parameters


class Point(NamedTuple):
    """What was found in a case. All values but the last are per step of one worker.

    Attributes:
      case: The case.
      seconds: From one step to the next.
      worker: CPU seconds of the worker's process.
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
    """Yields the cases that `benchmarks.scaling` needs.

    Args:
      workers: The greatest number of workers, ≥ 1.
    """
    counts = range(1, workers + 1)
    for setting in SETTINGS:
        yield Case("local", workers=1, **setting)
        for mode in ("asynchronous", "synchronous"):
            yield from (Case(mode, workers=count, **setting) for count in counts)
    first, second, _ = SETTINGS
    yield from (Case("averaging", workers=count, **second) for count in counts)
    yield Case("local kfac", workers=1, **first)
    yield from (Case("shared", workers=count, **first) for count in counts)
