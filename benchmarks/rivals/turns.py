"""Programs that take turns: how a rival's steps are timed, and how its optimizers race to a loss.

As `benchmarks.harness` and `benchmarks.time_to_loss.loss_race` do it, for programs of any framework. Used in the
environments of the rivals, where no module of this project is.
"""

import functools
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import starts


class Program(Protocol):
    """A model and an optimizer."""

    def run(self, steps: int) -> float:
        """Makes some steps; returns the seconds that they took."""


class Racer(Program, Protocol):
    """A program whose loss counts."""

    def loss(self) -> float:
        """Returns the mean loss over all training data."""


def time_steps(
    programs: Mapping[str, Program], repeats: int, block: int, warm_up: int
) -> dict[str, list[float]]:
    """Times blocks of steps of each program in turn; returns the seconds per step of each block."""
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
) -> list[dict[str, Any]]:
    """Trains with each optimizer and setting, in blocks that take turns.

    Args:
      start: Makes a program from an optimizer's name and its setting.
      grid: Settings by optimizer, of each race.
      blocks: Steps between two evaluations, by optimizer.
      rounds: How many blocks each makes.

    Returns:
      For each run "optimizer", "setting", "steps", "seconds", "losses", the latter three before
      each block and after the last.
    """
    curves: list[dict[str, Any]] = []
    for settings in grid:
        programs = {name: start(name, setting) for name, setting in settings.items()}
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
    return curves


def print_race(program: Callable[..., Racer], arguments: Sequence[str]) -> None:
    """Races as a command line says; prints the runs as JSON.

    Args:
      program: Makes a program from `starts.Digits`, the race, an optimizer's name and its setting.
      arguments: The path of the digits, and the race as JSON.
    """
    path, said = arguments
    settings = json.loads(said)
    start = functools.partial(program, starts.load(path), settings)
    print(json.dumps(race(start, settings["grid"], settings["blocks"], settings["rounds"])))
