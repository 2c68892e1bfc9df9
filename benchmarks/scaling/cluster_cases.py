"""Measured cases of a cluster with a parameter server, and the values measured in each."""

import dataclasses
from collections.abc import Iterator
from typing import Any, NamedTuple

from benchmarks.scaling.chains import SHAPES, Shape

LOCAL_MODES = ("local", "local kfac")
"""Modes in which each worker trains its own variables and exchanges nothing."""
KFAC_MODES = ("shared", "chief_worker", "dedicated_workers")
"""K-FAC on a cluster: the strategies of `kfac.WorkerRole`."""
_LEAST_WORKERS = {"dedicated_workers": 3}


@dataclasses.dataclass(frozen=True)
class Case:
    """Case to measure: a chain of square layers, trained by some workers.

    Attributes:
      mode: One of `LOCAL_MODES` or `KFAC_MODES`, "asynchronous", "synchronous" or "averaging".
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
    def shape(self) -> Shape:
        """Sizes of the chain."""
        return Shape(self.layers, self.width, self.batch)

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


def all_cases(workers: int) -> Iterator[Case]:
    """Yields the measured cases, with compared cases next to each other."""
    plain = ("local", "asynchronous", "synchronous")
    first, second, _ = SHAPES
    modes = [(mode, shape) for shape in SHAPES for mode in plain]
    modes += [("averaging", second), *((mode, first) for mode in ("local kfac", *KFAC_MODES))]
    for mode, shape in modes:
        for count in range(_LEAST_WORKERS.get(mode, 1), workers + 1):
            yield Case(mode, workers=count, **shape._asdict())
