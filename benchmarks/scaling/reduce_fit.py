"""Constants of all-reduce, fitted to the measurements of `all_reduce_points`.

The time that n workers take for their sums is that of a step by all-reduce, less that of the same n
workers that train alone side by side. CPU seconds are fitted to tiny variables, where only messages
take time, and to two workers with large ones; durations to two workers alone, since more wait for
the cores of one machine. The points with tiny variables also tell how much longer messages take
between more workers on one machine. Three and four workers with large variables are simulated from
that, and compared.
"""

import dataclasses
import statistics
from collections.abc import Mapping, Sequence

import numpy as np

from benchmarks.scaling import training_plans
from benchmarks.scaling.cluster_cases import Case, Point
from benchmarks.scaling.cost_fit import Comparison, non_negative
from benchmarks.scaling.training_plans import Constants, Costs, Stage, Training

_FITTED_WORKERS = 2


def constants(found: Mapping[Case, Point], others: Constants) -> Constants:
    """Returns constants with those of the ring of workers, ≥ 0, of the least relative errors.

    Raises:
      ValueError: A point is missing.
    """
    pairs = [
        (point, _alone(case, found))
        for case, point in found.items()
        if case.mode == "all_reduce" and (case.is_tiny or case.workers <= _FITTED_WORKERS)
    ]
    if not pairs:
        raise ValueError(
            "Cannot fit the constants of all-reduce: there are no points of two workers. Measure "
            "them with benchmarks.scaling.all_reduce_points."
        )
    cpu = _fit([(point, point.worker - alone.worker) for point, alone in pairs])
    two = [(point, alone) for point, alone in pairs if point.case.workers == _FITTED_WORKERS]
    secs = _fit_with([(point, point.seconds - alone.seconds) for point, alone in two], cpu)
    return others._replace(ring=secs, ring_cpu=cpu)


def compare(found: Mapping[Case, Point], fitted: Constants) -> list[Comparison]:
    """Simulates all cases of several workers, except those with tiny variables."""
    compared = []
    for case, point in found.items():
        if case.mode == "all_reduce" and not case.is_tiny:
            alone = _alone(case, found)
            training = Training(case.parameters, case.layers, alone.worker)
            plan = training_plans.all_reduce(training, case.workers)
            here = fitted._replace(
                ring=_crowded(case.workers, found, fitted.ring),
                cores=_cores(case.workers, found, fitted.cores),
            )
            simulated = training_plans.seconds_per_step(plan, here)
            compared.append(Comparison(case, point.seconds, simulated))
    return compared


def _cores(workers: int, found: Mapping[Case, Point], cores: float) -> float:
    """Returns the cores that workers keep busy which train alone, side by side.

    These workers share the cores with the same other programs as those that are simulated.
    """
    busy = [
        workers * point.worker / point.seconds
        for case, point in found.items()
        if case.mode == "alone" and case.workers == workers and not case.is_tiny
    ]
    return min(cores, statistics.median(busy))


def _crowded(workers: int, found: Mapping[Case, Point], ring: Costs) -> Costs:
    """Returns the costs of messages between so many workers on the cores of one machine.

    A message waits until its worker has a core. The points with tiny variables tell how long.
    """
    factors = []
    for case, point in found.items():
        if case.mode == "all_reduce" and case.workers == workers and case.is_tiny:
            stage, alone = _stage(case), _alone(case, found)
            expected = ring.of(stage.starts, stage.hops, stage.ring)
            factors.append((point.seconds - alone.seconds) / expected)
    factor = statistics.median(factors)
    return Costs(factor * ring.start, factor * ring.each, ring.byte)


def _alone(case: Case, found: Mapping[Case, Point]) -> Point:
    """Returns the point of the same workers that exchange nothing."""
    alone = dataclasses.replace(case, mode="alone")
    if alone not in found:
        raise ValueError(f"Cannot fit: there is no point of {alone}. Measure it, too.")
    return found[alone]


def _stage(case: Case) -> Stage:
    """Returns what the workers of a case send."""
    training = Training(case.parameters, case.layers, 1.0)
    (role,) = training_plans.all_reduce(training, case.workers).roles
    return role.stages[-1]


def _fit(extra: Sequence[tuple[Point, float]]) -> Costs:
    """Fits extra seconds of some points by costs per step, per message and per byte."""
    stages = [_stage(point.case) for point, _ in extra]
    return Costs(*_factors([[each.starts, each.hops, each.ring] for each in stages], extra))


def _fit_with(extra: Sequence[tuple[Point, float]], cpu: Costs) -> Costs:
    """Fits extra seconds of points that all have as many messages, by bytes and by those messages.

    The costs per step and per message have the same ratio as those of `cpu`.
    """
    stages = [_stage(point.case) for point, _ in extra]
    columns = [[cpu.of(each.starts, each.hops, 0), each.ring] for each in stages]
    factor, byte = _factors(columns, extra)
    return Costs(factor * cpu.start, factor * cpu.each, byte)


def _factors(
    columns: Sequence[Sequence[float]], extra: Sequence[tuple[Point, float]]
) -> list[float]:
    """Returns the factors ≥ 0 of columns that give extra seconds with the least relative errors."""
    scale = 1 / np.array([point.seconds for point, _ in extra])
    wanted = scale * np.array([seconds for _, seconds in extra])
    return non_negative(np.array(columns) * scale[:, np.newaxis], wanted)
