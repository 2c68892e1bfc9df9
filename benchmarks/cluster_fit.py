"""The constants of `benchmarks.cluster_plans`, from what `benchmarks.cluster_points` found.

They are fitted to one worker, and what small messages cost a server to two workers that average or
share K-FAC's work. So the points of three and four workers, and all others of two, say how good the
simulator is. What other programs took of the machine while a point was measured, the simulation of
it does without. Called by `benchmarks.scaling`.
"""

import dataclasses
import statistics as stats
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from benchmarks import cluster_plans
from benchmarks.cluster_cases import Case, Point
from benchmarks.cluster_plans import Constants, Costs, Training

_HAS_SMALL = ("averaging", "shared")


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
      found: Of all cases with one worker.
      cores: Of the machine.

    Raises:
      ValueError: One of them is missing.
    """
    alone = {_setting(case): found[case] for case in found if _is(case, "local")}
    apart = [point for case, point in found.items() if _is(case, "asynchronous")]
    merged = {_setting(case): found[case] for case in found if _is(case, "synchronous")}
    if not apart or not all(_setting(p.case) in merged.keys() & alone.keys() for p in apart):
        raise ValueError(
            "Cannot fit the constants: the points must have each setting with one worker in the "
            "modes local, asynchronous and synchronous. Measure with benchmarks.cluster_points."
        )
    pairs = [(alone[_setting(point.case)], point) for point in apart]
    sync = [(point, merged[_setting(point.case)]) for point in apart]
    return Constants(
        exchange=_fit(2, pairs, [p.seconds - a.worker for a, p in pairs]),
        worker=_fit(2, pairs, [p.worker - a.worker for a, p in pairs]),
        server=_fit(2, pairs, [p.server for _, p in pairs]),
        merge=_fit(1, sync, [s.seconds - p.seconds for p, s in sync]),
        merge_cpu=_fit(1, sync, [s.worker + s.server - p.worker - p.server for p, s in sync]),
        cores=cores,
    )


def compare(found: Mapping[Case, Point], fitted: Constants) -> list[Comparison]:
    """Simulates all cases that exchange something on this machine."""
    compared = []
    for case, point in found.items():
        if case.is_exchanged:
            plan = cluster_plans.PLANS[case.mode](training_of(case, found, fitted), case.workers)
            simulated = cluster_plans.seconds_per_step(plan, _left(fitted, point))
            compared.append(Comparison(case, point.seconds, simulated))
    return compared


def training_of(case: Case, found: Mapping[Case, Point], fitted: Constants) -> Training:
    """Returns what a case trains.

    K-FAC's work is what it takes without a cluster, divided by multiplications. What is small in
    K-FAC and in averaging is what simulations otherwise lack.
    """
    one = dataclasses.replace(case, workers=1)
    computing = found[dataclasses.replace(one, mode="local")].worker
    training = Training(case.parameters, case.layers, computing, case.interval)
    if case.is_kfac:
        own = found[dataclasses.replace(one, mode="local kfac")].worker - computing
        training = _with_kfac(training, case, max(0.0, own))
    return _with_small(training, case, found, fitted) if case.mode in _HAS_SMALL else training


def _with_small(
    training: Training, case: Case, found: Mapping[Case, Point], fitted: Constants
) -> Training:
    """Adds what simulations lack: the time of one worker, CPU seconds of two who wait."""
    one, two = (found.get(dataclasses.replace(case, workers=number)) for number in (1, 2))
    if one is None:
        raise ValueError(
            f"Cannot simulate {case.mode}: there is no point with one worker. Measure it with "
            "benchmarks.cluster_points."
        )
    plans = cluster_plans.PLANS[case.mode]
    simulated = cluster_plans.seconds_per_step(plans(training, 1), _left(fitted, one))
    taken = two or one
    number = taken.case.workers
    cpu = number * (taken.worker + taken.server)
    cpu -= cluster_plans.cpu_seconds_per_step(plans(training, number), fitted)
    cpu = max(0.0, cpu if case.waits else cpu / number)
    seconds = max(0.0, one.seconds - simulated, cpu / fitted.cores)
    return training._replace(small=seconds, small_cpu=cpu)


def _left(fitted: Constants, point: Point) -> Constants:
    """The constants with as many cores as other programs left."""
    return fitted._replace(cores=max(0.1, fitted.cores - point.others))


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


def _fit(times: int, pairs: Sequence[tuple[Point, Point]], extra: Sequence[float]) -> Costs:
    """Fits what the second point of each pair takes more than the first.

    Args:
      times: How often the parameters are in it.
      pairs: The second one's case says how many tensors and bytes those are.
      extra: Seconds.
    """
    cases = [point.case for _, point in pairs]
    scale = 1 / np.array([point.seconds for _, point in pairs])
    rows = np.array([[times * case.layers, times * case.parameters] for case in cases])
    columns, wanted = rows * scale[:, np.newaxis], np.array(extra) * scale
    each, byte = np.linalg.lstsq(columns, wanted, rcond=None)[0]
    if each < 0 or byte < 0:  # Then the best is at the edge: one of the two alone, or none.
        first, second = (
            max(0.0, float(column @ wanted / (column @ column))) for column in columns.T
        )
        errors = [
            float(np.sum((columns[:, 0] * first - wanted) ** 2)),
            float(np.sum((columns[:, 1] * second - wanted) ** 2)),
        ]
        each, byte = (first, 0.0) if errors[0] < errors[1] else (0.0, second)
    return Costs(float(each), float(byte))


def _is(case: Case, mode: str) -> bool:
    return case.mode == mode and case.workers == 1


def _setting(case: Case) -> tuple[int, int, int]:
    return case.width, case.layers, case.batch
