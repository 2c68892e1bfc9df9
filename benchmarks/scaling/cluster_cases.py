"""Measured cases of a cluster, and the values measured in each.

Contains values only. Shared by the measurement and the simulation.
"""

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

LOCAL_MODES = ("local", "local kfac")
"""Modes in which each worker trains its own variables and exchanges nothing."""
KFAC_MODES = ("shared", "chief_worker", "dedicated_workers")
"""K-FAC on a cluster: the strategies of `kfac.WorkerRole`."""
MODES = (*LOCAL_MODES, "asynchronous", "synchronous", "averaging", *KFAC_MODES)

REDUCE_MODES = ("alone", "all_reduce")
"""Programs of `replicate.Estimator`: workers that train alone side by side, and by all-reduce."""

NUMBER_BYTES = 4
_TINY_WIDTH = 8
_TINY_WORKERS = 2
_LEAST_WORKERS = {"dedicated_workers": 3}


@dataclasses.dataclass(frozen=True)
class Case:
    """Case to measure: a chain of square layers, trained by some workers.

    Attributes:
      mode: One of `MODES` or `REDUCE_MODES`.
      width: Units of each layer.
      layers: Number of layers.
      batch: Examples in a worker's step.
      workers: Number of workers, including the chief.
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
        """Unique name of the case."""
        name = "-".join(map(str, dataclasses.astuple(self)))
        return name.replace(" ", "-").replace("_", "-")

    @property
    def is_exchanged(self) -> bool:
        """True if the variables are on the parameter server."""
        return self.mode not in LOCAL_MODES

    @property
    def is_kfac(self) -> bool:
        """True if the optimizer is K-FAC."""
        return self.mode in ("local kfac", *KFAC_MODES)

    @property
    def waits(self) -> bool:
        """True if the workers wait for each other in every step."""
        return self.mode in ("synchronous", *KFAC_MODES)

    @property
    def gradients(self) -> int:
        """Number of workers that compute gradients. They are the first ones."""
        return -(-3 * self.workers // 5) if self.mode == "dedicated_workers" else self.workers

    @property
    def tiny(self) -> "Case":
        """Same case with tiny variables and batch, whose time is that of the messages."""
        return dataclasses.replace(self, width=_TINY_WIDTH, batch=1)

    @property
    def is_tiny(self) -> bool:
        """True if the case has tiny variables."""
        return self.width == _TINY_WIDTH

    @property
    def parameters(self) -> int:
        """Bytes of all parameters."""
        return NUMBER_BYTES * self.layers * self.width**2

    @property
    def factors(self) -> int:
        """Bytes of all factors of K-FAC: two for each layer, as wide as the layer."""
        return 2 * self.parameters


class Point(NamedTuple):
    """Measurements of a case. All but `others` are per gradient of a worker.

    Attributes:
      case: Measured case.
      seconds: Time between two gradients of a worker.
      worker: CPU seconds of all workers' processes, divided by the number of all gradients.
      server: CPU seconds of the parameter server, likewise.
      sent: Bytes over the loopback interface, including those of other programs.
      others: Cores used by other programs.
    """

    case: Case
    seconds: float
    worker: float
    server: float
    sent: float
    others: float

    def as_json(self) -> dict[str, Any]:
        """Returns a dict that JSON can represent."""
        return {**self._asdict(), "case": dataclasses.asdict(self.case)}

    @classmethod
    def from_json(cls, found: dict[str, Any]) -> "Point":
        """Creates a point from the result of `as_json`."""
        return cls(**{**found, "case": Case(**found["case"])})


SETTINGS = (
    {"width": 256, "layers": 4, "batch": 512},
    {"width": 512, "layers": 4, "batch": 16},
    {"width": 32, "layers": 24, "batch": 64},
)
"""Dominated by computation, by bytes, and by the number of requests."""


def all_cases(workers: int) -> Iterator[Case]:
    """Yields the cases that `benchmarks.scaling` needs, with compared cases next to each other."""
    first, second, third = SETTINGS
    for setting in (first, second, third):
        for mode in ("local", "asynchronous", "synchronous"):
            yield from _of(mode, setting, workers)
            if setting is not first:  # Same number of layers as the second.
                yield from _tiny(mode, setting, workers)
    yield from (*_of("averaging", second, workers), *_tiny("averaging", second, workers))
    for mode in ("local kfac", *KFAC_MODES):
        yield from (*_of(mode, first, workers), *_tiny(mode, first, workers))


def reduce_cases(workers: int) -> Iterator[Case]:
    """Yields the cases of some workers without parameter servers, each mode next to the other."""
    first, second, third = (Case("alone", workers=workers, **setting) for setting in SETTINGS)
    for case in (first, second, second.tiny, third, third.tiny):
        for mode in REDUCE_MODES if workers > 1 else REDUCE_MODES[:1]:
            yield dataclasses.replace(case, mode=mode)


def _of(mode: str, setting: Mapping[str, int], workers: int) -> Iterator[Case]:
    for count in range(_LEAST_WORKERS.get(mode, 1), workers + 1):
        yield Case(mode, workers=count, **setting)


def _tiny(mode: str, setting: Mapping[str, int], workers: int) -> Iterator[Case]:
    """Yields tiny cases with one worker and with two, or with the fewest that the mode allows."""
    most = 1 if mode in LOCAL_MODES else _LEAST_WORKERS.get(mode, _TINY_WORKERS)
    yield from (case.tiny for case in _of(mode, setting, min(workers, most)))
