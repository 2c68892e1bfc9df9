"""Alternating programs: timing of a rival's steps, and races of its optimizers to a loss.

Like `benchmarks.harness` and `benchmarks.time_to_loss.loss_race`, for programs of any framework.
Imports no module of this project outside of this folder, because it runs in the environments of the
rivals.
"""

import functools
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import starts


class Program(Protocol):
    """Program whose steps are timed."""

    def run(self, steps: int) -> float:
        """Runs some steps and returns their total seconds."""


class Racer(Program, Protocol):
    """Program that takes part in a race to a loss."""

    def loss(self) -> float:
        """Returns the mean loss over all training data."""


def time_steps(
    programs: Mapping[str, Program], repeats: int, block: int, warm_up: int
) -> dict[str, list[float]]:
    """Times the programs in alternating blocks; returns seconds per step of each block by name."""
    for program in programs.values():
        program.run(warm_up)
    times: dict[str, list[float]] = {name: [] for name in programs}
    for _ in range(repeats):
        for name, program in programs.items():
            times[name].append(program.run(block) / block)
    return times


def race(
    start: Callable[[str, float], Racer],
    grid: Sequence[Mapping[str, float]],
    blocks: Mapping[str, int],
    rounds: int,
) -> dict[str, Any]:
    """Trains with each optimizer and setting, in alternating blocks.

    An optimizer that cannot start, for example because its package does not work here, is left out.

    Args:
      start: Creates a program from an optimizer's name and setting.
      grid: Settings by optimizer, for each race.
      blocks: Steps between two evaluations, by optimizer.
      rounds: Number of blocks of each optimizer.

    Returns:
      {"runs", "troubles"}. A run is a dict with "optimizer", "setting", and lists "steps",
      "seconds", "losses" with one entry before the first block and one after each block. Troubles
      are error texts by optimizer.
    """
    curves: list[dict[str, Any]] = []
    troubles: dict[str, str] = {}
    for settings in grid:
        programs: dict[str, Racer] = {}
        for name, setting in settings.items():
            try:
                programs[name] = start(name, setting)
            except Exception as error:  # Any failure of a package concerns one optimizer only.
                troubles[name] = f"{type(error).__name__}: {error}"
        runs: dict[str, dict[str, Any]] = {
            name: {
                "optimizer": name,
                "setting": settings[name],
                "steps": [0],
                "seconds": [0.0],
                "losses": [program.loss()],
            }
            for name, program in programs.items()
        }
        for _ in range(rounds):
            for name, program in programs.items():
                run = runs[name]
                run["seconds"].append(run["seconds"][-1] + program.run(blocks[name]))
                run["steps"].append(run["steps"][-1] + blocks[name])
                run["losses"].append(program.loss())
        curves.extend(runs.values())
    return {"runs": curves, "troubles": troubles}


def print_race(program: Callable[..., Racer], arguments: Sequence[str]) -> None:
    """Runs a race by its two arguments and prints what `race` returns as JSON.

    These are the path of the digits, and the settings of the race as JSON.
    """
    path, said = arguments
    settings = json.loads(said)
    start = functools.partial(program, starts.load(path), settings)
    print(json.dumps(race(start, settings["grid"], settings["blocks"], settings["rounds"])))
