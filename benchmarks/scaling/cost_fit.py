"""Constants of `training_plans`, fitted to the measurements of `cluster_points`.

No constant is fitted to a point with several workers that the simulator is to reproduce. The fit
uses one worker, workers that compute side by side and exchange nothing, and two workers with tiny
variables (three in modes that need as many), where only messages take time. Each simulation runs on
the cores that other programs left free during the measurement.
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
    """Measured and simulated seconds per step of a worker, in a case."""

    case: Case
    measured: float
    simulated: float

    @property
    def error(self) -> float:
        """Relative error of the simulated time."""
        return self.simulated / self.measured - 1


def medians(points: Iterable[Point]) -> dict[Case, Point]:
    """Returns one point per case, with the median of each value over repeated measurements."""
    grouped: dict[Case, list[Point]] = {}
    for point in points:
        grouped.setdefault(point.case, []).append(point)
    return {
        case: Point(case, *(stats.median(v) for v in list(zip(*each, strict=True))[1:]))
        for case, each in grouped.items()
    }


def constants(found: Mapping[Case, Point], cores: float) -> Constants:
    """Fits the non-negative constants with the least squared relative errors.

    Raises:
      ValueError: A point is missing.
    """
    alone = _beside(found, "asynchronous", "local", most=1)
    merged = _beside(found, "synchronous", "asynchronous", most=2)
    one = [(p, other) for p, other in merged if p.case.workers == 1]
    if not alone or not one:
        raise ValueError(
            "Cannot fit the constants: the points must include the settings with one worker in the "
            "modes local, asynchronous and synchronous. Measure them with "
            "benchmarks.scaling.cluster_points."
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
    """Returns the number of cores that `workers` computing workers keep busy.

    With as many workers as cores, or a few more, a worker sometimes waits for a core while another
    core is idle.

    Returns:
      The median over these points, or `cores` for one worker or without such points.
    """
    busy = [
        workers * point.worker / point.seconds
        for case, point in found.items()
        if case.workers == workers and not case.is_exchanged and not case.is_tiny
    ]
    return min(cores, stats.median(busy)) if busy and workers > 1 else cores


def compare(found: Mapping[Case, Point], fitted: Constants) -> list[Comparison]:
    """Simulates all cases that exchange something, except those with tiny variables."""
    compared = []
    for case, point in found.items():
        if case.is_exchanged and not case.is_tiny:
            training = training_of(case, found, fitted)
            simulated = _simulate(training, point, found, fitted)
            compared.append(Comparison(case, point.seconds, simulated))
    return compared


def training_of(case: Case, found: Mapping[Case, Point], fitted: Constants) -> Training:
    """Returns the training of a case.

    The computing time is that of as many workers side by side that exchange nothing, so it includes
    the slowdown by shared caches. K-FAC's own time is the difference to plain training, split in
    proportion to multiplications. The small work of K-FAC and of averaging is fitted to the cases
    with tiny variables.
    """
    training = _computing(case, found)
    return _with_small(training, case, found, fitted) if case.mode in _HAS_SMALL else training


def _computing(case: Case, found: Mapping[Case, Point]) -> Training:
    """Returns the training of a case without the small work."""
    computing = _local(case, found, "local").worker
    training = Training(case.parameters, case.layers, computing, case.interval)
    if case.is_kfac:
        own = _local(case, found, "local kfac").worker - computing
        training = _with_kfac(training, case, max(0.0, own))
    return training


def _local(case: Case, found: Mapping[Case, Point], mode: str) -> Point:
    """Returns the point of as many workers that exchange nothing, or else of one worker."""
    side_by_side = dataclasses.replace(case, mode=mode)
    return found.get(side_by_side) or found[dataclasses.replace(side_by_side, workers=1)]


def _with_small(
    training: Training, case: Case, found: Mapping[Case, Point], fitted: Constants
) -> Training:
    """Adds the small work: the difference between measurement and simulation of tiny variables.

    The chief's part comes from one worker, the part of the others from a second worker. In modes
    that need more workers, all have equal parts, chosen so that the simulated time is the measured
    one.
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
    """Returns the seconds of small work per worker for which the simulated time is right."""
    low, high = 0.0, point.seconds
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        training = plain._replace(small=middle, chief_cpu=middle, other_cpu=middle)
        is_short = _simulate(training, point, found, fitted) < point.seconds
        low, high = (middle, high) if is_short else (low, middle)
    return low


def _missing_cpu(plain: Training, point: Point, fitted: Constants) -> float:
    """Returns the CPU seconds of a step that are missing in the simulation."""
    plan = training_plans.PLANS[point.case.mode](plain, point.case.workers)
    return max(0.0, _cpu(point) - training_plans.cpu_seconds_per_step(plan, fitted))


def _simulate(
    training: Training, point: Point, found: Mapping[Case, Point], fitted: Constants
) -> float:
    """Returns seconds per step, on the cores that other programs left free at measurement."""
    case = point.case
    cores = cores_in_use(found, case.workers, fitted.cores) - max(0.0, point.others)
    plan = training_plans.PLANS[case.mode](training, case.workers)
    return training_plans.seconds_per_step(plan, fitted._replace(cores=max(0.1, cores)))


def _with_kfac(training: Training, case: Case, own: float) -> Training:
    """Splits the seconds of K-FAC's own work in proportion to multiplications."""
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
    """Returns pairs of points in two modes that constants may be fitted to."""
    points = [
        (point, found.get(dataclasses.replace(case, mode=other)))
        for case, point in found.items()
        if case.mode == mode and case.workers <= (most if case.is_tiny else 1)
    ]
    return [(point, beside) for point, beside in points if beside]


def _fit(times: int, extra: Sequence[tuple[Point, float]], for_all: bool = False) -> Costs:
    """Fits extra seconds of some points by costs per step, per tensor and per byte.

    `times` are the transfers of the parameters in these seconds. `for_all` counts the tensors and
    bytes of all workers.
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
    return Costs(*non_negative(rows * scale[:, np.newaxis], wanted))


def non_negative(columns: Floats, wanted: Floats) -> list[float]:
    """Solves non-negative least squares by trying all subsets of columns."""
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
    """Returns the CPU seconds of all processes in a step of all workers."""
    return point.case.gradients * (point.worker + point.server)


def _is_like(case: Case, other: Case) -> bool:
    """Returns True if the cases differ at most in the number of workers."""
    return dataclasses.replace(case, workers=other.workers) == other
