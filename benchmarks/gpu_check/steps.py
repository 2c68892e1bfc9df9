"""Step times of K-FAC, of towers, and of reductions of gradients, each with its alternatives.

The programs are those of `benchmarks.kfac_step`, on the first device, and of
`benchmarks.tower_step`, on all devices.
"""

import functools
from collections.abc import Mapping, Sequence
from typing import get_args

import tensorflow as tf

from benchmarks import harness
from benchmarks.gpu_check.devices import Devices
from benchmarks.gpu_check.models import BATCH_SIZE, WideMlp
from benchmarks.gpu_check.outcome import Cell, Outcome, Table, judge
from benchmarks.kfac_step import MODELS, step_programs
from benchmarks.tower_step import WAYS, tower_models, tower_programs
from model_deploy import GradientReduction

ROUNDS = 5
"""Blocks of each program."""

BLOCK = step_programs.INVERT_EVERY
"""Steps in a block: one interval between K-FAC's inverses."""


def compare(devices: Devices, rounds: int = ROUNDS, models: Sequence[str] = MODELS) -> Outcome:
    """Times the programs. There is no limit: the part fails only if a program does."""
    of_kfac = {model: _time_kfac(model, devices.names[0], rounds) for model in models}
    of_towers = _time_towers(devices, rounds)
    kfac_rows = [
        [model, *_cells(times["kfac"], times["momentum"])] for model, times in of_kfac.items()
    ]
    ours = of_towers[WAYS[0]]
    tower_rows = [[way, *_cells(ours, of_towers[way])] for way in WAYS[1:]]
    of_reductions = time_reductions(devices, rounds)
    summary = "K-FAC / momentum: " + ", ".join(f"{model} {cells[0]}" for model, *cells in kfac_rows)
    summary += "; replicated / " + ", ".join(f"{way} {cells[0]}" for way, *cells in tower_rows)
    return judge(
        True,
        summary,
        Table(
            f"K-FAC on {devices.names[0]}: median [least, most] of {rounds} blocks",
            ("model", "K-FAC / momentum", "K-FAC, ms", "momentum, ms"),
            kfac_rows,
        ),
        Table(
            f"ConvNet 28x28 on {devices}: median [least, most] of {rounds} blocks",
            ("alternative", "replicated / alternative", "replicated, ms", "alternative, ms"),
            tower_rows,
        ),
        Table(
            f"WideMlp on {devices}: median [least, most] of {rounds} blocks",
            ("reduction", "reduction / last", "reduction, ms", "last, ms"),
            [
                [way, *_cells(times, of_reductions["last"])]
                for way, times in of_reductions.items()
                if way != "last"
            ],
        ),
    )


def time_reductions(
    devices: Devices, rounds: int, model: tower_models.Model | None = None
) -> Mapping[str, Sequence[float]]:
    """Returns seconds per step of each block, by `replicate_model_fn(reduction=…)`."""
    programs = {
        way: tower_programs.GraphProgram(
            model or WideMlp(),
            devices.names,
            functools.partial(tower_programs.replicated, reduction=way),
        )
        for way in get_args(GradientReduction)
    }
    return harness.take_turns(programs, rounds, BLOCK, warm_up=BLOCK)


def _time_kfac(model: str, device: str, rounds: int) -> Mapping[str, Sequence[float]]:
    programs = {
        name: step_programs.Program(model, name, BATCH_SIZE, device=device)
        for name in ("momentum", "kfac")
    }
    return harness.take_turns(programs, rounds, BLOCK, warm_up=BLOCK)


def _time_towers(devices: Devices, rounds: int) -> Mapping[str, Sequence[float]]:
    model = tower_models.ConvNet(28, BATCH_SIZE)
    # NCCL, the default on GPUs, refuses two replicas on one GPU.
    reduction = tf.distribute.ReductionToOneDevice() if devices.is_split else None
    programs = tower_programs.all_ways(model, devices.names, reduction)
    return harness.take_turns(programs, rounds, BLOCK, warm_up=BLOCK)


def _cells(ours: Sequence[float], others: Sequence[float]) -> list[Cell]:
    """Returns ratio and times with their spread."""
    milliseconds = [[1e3 * seconds for seconds in times] for times in (ours, others)]
    ratio = harness.spread(harness.ratios(ours, others), 2)
    return [ratio, *(harness.spread(times, 2) for times in milliseconds)]
