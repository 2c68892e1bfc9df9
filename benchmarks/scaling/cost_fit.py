"""The constants of `benchmarks.scaling.training_plans`, from what `benchmarks.scaling.cluster_points` found.

None of them comes from a point that the simulator is to reproduce with several workers: they are
fitted to one worker, to workers that compute side by side and exchange nothing, and to two workers,
or three where a mode takes as many, with tiny variables, for which only messages count. What other
programs took of the machine while a point was measured, the simulation of it does without. Called
by `benchmarks.scaling`.
"""

import dataclasses
import itertools
import statistics as stats
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from benchmarks.scaling import training_plans
from benchmarks.scaling.cluster_cases import KFAC_MODES, Case, Point
from benchmarks.scaling.training_plans import Constants, Costs, Training

Floats: TypeAlias = npt.NDArray[np.float64]

_HALVINGS = 20
_HAS_SMALL = ("averaging", *KFAC_MODES)


class Comparison(NamedTuple):
    """A point beside the simulation of it.

    Attributes:
      case: What was trained.
      measured: Seconds per step of a worker.
      simulated: Likewise.
    """

    case: Case
    measured: float
    simulated: float

    @property
    def error(self) -> float:
        """By which part of the measured time the simulated one is off."""
        return self.simulated / self.measured - 1


def medians(points: Iterable[Point]) -> dict[Case, Point]:
    """Returns one point per case: of each value the median over the times it was measured."""
    grouped: dict[Case, list[Point]] = {}
    for point in points:
        grouped.setdefault(point.case, []).append(point)
    return {
        case: Point(case, *(stats.median(v) for v in list(zip(*each, strict=True))[1:]))
        for case, each in grouped.items()
    }


def constants(found: Mapping[Case, Point], cores: float) -> Constants:
    """Fits the constants; non-negative, with the least relative errors.

    Args:
      found: Of all cases with one worker, and of those with tiny variables.
      cores: Of the machine.

    Raises:
      ValueError: One of them is missing.
    """
    alone = _beside(found, "asynchronous", "local", most=1)
    merged = _beside(found, "synchronous", "asynchronous", most=2)
    one = [(p, other) for p, other in merged if p.case.workers == 1]
    if not alone or not one:
        raise ValueError(
            "Cannot fit the constants: the points must have the settings with one worker in the "
            "modes local, asynchronous and synchronous. Measure with benchmarks.scaling.cluster_points."
        )
    return Constants(
        exchange=_fit(2, [(p, p.seconds - local.worker) for p, local in alone]),
        worker=_fit(2, [(p, p.worker - local.worker) for p, local in alone]),
        server=_fit(2, [(p, p.server) for p, _ in alone]),
        merge=_fit(1, [(p, p.seconds - apart.seconds) for p, apart in one]),
        merge_cpu=_fit(1, [(p, _cpu(p) - _cpu(apart)) for p, apart in merged], for_all=True),
        cores=cores,
    )


def cores_in_use(found: Mapping[Case, Point], workers: int, cores: float) -> float:
    """Returns how many cores some workers keep busy that do nothing but compute, each on one.

    Where there are as many of them as cores, or a few more, one at times waits for a core while
    another core is idle.

    Args:
      found: Where there are points of so many workers that exchange nothing.
      workers: How many.
      cores: Of the machine.

    Returns:
      The median over these points; with one worker, or without such points, all cores.
    """
    busy = [
        workers * point.worker / point.seconds
        for case, point in found.items()
        if case.workers == workers and not case.is_exchanged and not case.is_tiny
    ]
    return min(cores, stats.median(busy)) if busy and workers > 1 else cores


def compare(found: Mapping[Case, Point], fitted: Constants) -> list[Comparison]:
    """Simulates all cases that exchange something on this machine, but those that are tiny."""
    compared = []
    for case, point in found.items():
        if case.is_exchanged and not case.is_tiny:
            training = training_of(case, found, fitted)
            simulated = _simulate(training, point, found, fitted)
            compared.append(Comparison(case, point.seconds, simulated))
    return compared


def training_of(case: Case, found: Mapping[Case, Point], fitted: Constants) -> Training:
    """Returns what a case trains.

    What a worker computes takes as long as beside as many others with nothing to exchange, so it
    contains what they take from each other's caches. K-FAC's work is what it takes besides,
    divided by multiplications. What is small in K-FAC and in averaging comes from tiny variables.
    """
    training = _computing(case, found)
    return _with_small(training, case, found, fitted) if case.mode in _HAS_SMALL else training


def _computing(case: Case, found: Mapping[Case, Point]) -> Training:
    """What a case trains, without what is small."""
    computing = _local(case, found, "local").worker
    training = Training(case.parameters, case.layers, computing, case.interval)
    if case.is_kfac:
        own = _local(case, found, "local kfac").worker - computing
        training = _with_kfac(training, case, max(0.0, own))
    return training


def _local(case: Case, found: Mapping[Case, Point], mode: str) -> Point:
    """The point of as many workers, or else of one, that exchange nothing."""
    side_by_side = dataclasses.replace(case, mode=mode)
    return found.get(side_by_side) or found[dataclasses.replace(side_by_side, workers=1)]


def _with_small(
    training: Training, case: Case, found: Mapping[Case, Point], fitted: Constants
) -> Training:
    """Adds what simulations of tiny variables lack.

    The chief's part is that of one worker, and the others' what a second one adds. Where the mode
    takes more workers they have equal parts, with which the simulated time is the measured one.
    """
    tiny = [p for other, p in found.items() if other.is_tiny and _is_like(other, case.tiny)]
    if not tiny:
        raise ValueError(
            f"Cannot simulate {case.mode}: there is no point with tiny variables. Measure it with "
            "benchmarks.scaling.cluster_points."
        )
    first, *more = sorted(tiny, key=lambda point: point.case.workers)
    plain = _computing(first.case, found)
    if first.case.workers > 1:
        part = _equal_parts(plain, first, found, fitted)
        return training._replace(small=part, chief_cpu=part, other_cpu=part)
    chief = other = _missing_cpu(plain, first, fitted)
    for second in more[:1]:
        both = _missing_cpu(plain, second, fitted)
        other = max(0.0, both - chief) / (second.case.workers - 1)
    missing = first.seconds - _simulate(plain, first, found, fitted)
    seconds = max(0.0, missing, chief / fitted.cores)
    return training._replace(small=seconds, chief_cpu=chief, other_cpu=other)


def _equal_parts(
    plain: Training, point: Point, found: Mapping[Case, Point], fitted: Constants
) -> float:
    """Seconds of what is small for each worker, with which the simulation takes as long."""
    low, high = 0.0, point.seconds
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        training = plain._replace(small=middle, chief_cpu=middle, other_cpu=middle)
        is_short = _simulate(training, point, found, fitted) < point.seconds
        low, high = (middle, high) if is_short else (low, middle)
    return low


def _missing_cpu(plain: Training, point: Point, fitted: Constants) -> float:
    """CPU seconds of all processes in a step that a simulation lacks."""
    plan = training_plans.PLANS[point.case.mode](plain, point.case.workers)
    return max(0.0, _cpu(point) - training_plans.cpu_seconds_per_step(plan, fitted))


def _simulate(
    training: Training, point: Point, found: Mapping[Case, Point], fitted: Constants
) -> float:
    """Seconds per step, on the cores that others left when the point was measured."""
    case = point.case
    cores = cores_in_use(found, case.workers, fitted.cores) - max(0.0, point.others)
    plan = training_plans.PLANS[case.mode](training, case.workers)
    return training_plans.seconds_per_step(plan, fitted._replace(cores=max(0.1, cores)))


def _with_kfac(training: Training, case: Case, own: float) -> Training:
    """Divides the seconds of K-FAC's own work in a step by multiplications."""
    statistics = 2 * case.batch * case.width**2
    preconditioning = inversion = 2 * case.width**3
    second = own / (statistics + preconditioning + inversion / case.interval)
    return training._replace(
        factors=case.factors,
        statistics=statistics * second,
        preconditioning=preconditioning * second,
        inversion=inversion * second,
    )


def _beside(
    found: Mapping[Case, Point], mode: str, other: str, most: int
) -> list[tuple[Point, Point]]:
    """The points of a mode that constants may come from, each with that of another mode.

    Args:
      found: All points.
      mode: Of the first of each pair.
      other: Of the second.
      most: Up to how many workers there are if variables are tiny; otherwise there is one.
    """
    points = [
        (point, found.get(dataclasses.replace(case, mode=other)))
        for case, point in found.items()
        if case.mode == mode and case.workers <= (most if case.is_tiny else 1)
    ]
    return [(point, beside) for point, beside in points if beside]


def _fit(times: int, extra: Sequence[tuple[Point, float]], for_all: bool = False) -> Costs:
    """Fits what some points take more than others: per step, per tensor and per byte.

    Args:
      times: How often the parameters are in it.
      extra: The points, whose cases say how many tensors and bytes those are, and the seconds.
      for_all: Whether tensors and bytes are those of all workers.
    """
    counts = [times * (point.case.workers if for_all else 1) for point, _ in extra]
    rows = np.array(
        [
            [1.0, count * point.case.layers, count * point.case.parameters]
            for count, (point, _) in zip(counts, extra, strict=True)
        ]
    )
    scale = 1 / np.array([point.seconds for point, _ in extra])
    wanted = scale * np.array([seconds for _, seconds in extra])
    return Costs(*_non_negative(rows * scale[:, np.newaxis], wanted))


def _non_negative(columns: Floats, wanted: Floats) -> list[float]:
    """The least squares without negative numbers: the best over all choices of columns."""
    number = columns.shape[1]
    best, least = [0.0] * number, float(wanted @ wanted)
    for count in range(1, number + 1):
        for chosen in map(list, itertools.combinations(range(number), count)):
            values = np.linalg.lstsq(columns[:, chosen], wanted, rcond=None)[0]
            error = float(np.sum((columns[:, chosen] @ values - wanted) ** 2))
            if error < least and values.min() >= 0:
                best, least = [0.0] * number, error
                for place, value in zip(chosen, values, strict=True):
                    best[place] = float(value)
    return best


def _cpu(point: Point) -> float:
    """CPU seconds of all processes in a step of all workers."""
    return point.case.gradients * (point.worker + point.server)


def _is_like(case: Case, other: Case) -> bool:
    """Whether two cases differ in the number of workers at most."""
    return dataclasses.replace(case, workers=other.workers) == other
