"""Step times of K-FAC, of towers, and of reductions of gradients, each with its alternatives.

The programs are those of `benchmarks.kfac_step`, on the first device, and of
`benchmarks.tower_step`, on all devices.
"""

import functools
from collections.abc import Mapping, Sequence
from typing import get_args

import tensorflow as tf

from benchmarks import harness
from benchmarks.gpu_check.machine import Devices
from benchmarks.gpu_check.outcome import Outcome, Table, judge
from benchmarks.gpu_check.training import BATCH_SIZE, mlp
from benchmarks.kfac_step import MODELS, OPTIMIZERS, step_programs
from benchmarks.tower_step import WAYS, tower_models, tower_programs
from model_deploy import GradientReduction

ROUNDS = 5
"""Blocks of each program."""

BLOCK = step_programs.INVERT_EVERY
"""Steps in a block: one interval between K-FAC's inverses."""


def compare(devices: Devices) -> Outcome:
    """Times the programs. There is no limit: the part fails only if a program does."""
    device = devices.names[0]
    of_kfac = {}
    for model in MODELS:
        programs = {
            n: step_programs.Program(model, n, BATCH_SIZE, device=device) for n in OPTIMIZERS
        }
        times = _time(programs)
        of_kfac[model] = times["K-FAC"], times["momentum"]
    # NCCL, the default on GPUs, refuses two replicas on one GPU.
    way = tf.distribute.ReductionToOneDevice() if devices.part_megabytes else None
    convnet = tower_models.ConvNet(28, BATCH_SIZE)
    times = _time(tower_programs.all_ways(convnet, devices.names, way))
    of_towers = {way: (times[WAYS[0]], times[way]) for way in WAYS[1:]}
    wide, programs = mlp(16, (2048, 2048)), {}
    for reduction in get_args(GradientReduction):
        build = functools.partial(tower_programs.replicated, reduction=reduction)
        programs[reduction] = tower_programs.GraphProgram(wide, devices.names, build)
    times = _time(programs)
    of_reductions = {way: (each, times["last"]) for way, each in times.items() if way != "last"}
    tables = (
        _table(f"K-FAC on {device}", ("model", "K-FAC", "momentum"), of_kfac),
        _table(f"ConvNet 28x28 on {devices}", ("way", WAYS[0], "this way"), of_towers),
        _table(f"19 MB of gradients on {devices}", ("way", "reduction", "last"), of_reductions),
    )
    summary = "; ".join(
        f"{table.columns[1]}: " + ", ".join(f"{name} {ratio}" for name, ratio, *_ in table.rows)
        for table in tables[:2]
    )
    return judge(True, summary, *tables)


def _time(programs: Mapping[str, harness.Program]) -> Mapping[str, Sequence[float]]:
    return harness.take_turns(programs, ROUNDS, BLOCK, warm_up=BLOCK)


def _table(
    title: str,
    heads: tuple[str, str, str],
    times: Mapping[str, tuple[Sequence[float], Sequence[float]]],
) -> Table:
    """Returns a table of ratios and milliseconds: median [least, most] of blocks."""
    first, ours, theirs = heads
    rows = []
    for name, pair in times.items():
        milliseconds = [harness.spread([1e3 * t for t in each], 2) for each in pair]
        rows.append([name, harness.spread(harness.ratios(*pair), 2), *milliseconds])
    columns = (first, f"{ours} / {theirs}", f"{ours}, ms", f"{theirs}, ms")
    return Table(f"{title}: median [least, most] of blocks", columns, rows)
