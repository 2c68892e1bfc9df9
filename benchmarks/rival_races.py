"""Races of other K-FACs to a training loss, each beside Adam in its own framework.

They start from the weights that `benchmarks.loss_programs` starts from with the same problem and
seed, on the same digits, with batches drawn in the same way (on TensorFlow even the same ones), and
in blocks as in `benchmarks.loss_race`, which also says who has won. Called by
`benchmarks.time_to_loss`.
"""

import json
import pathlib
import tempfile
from collections.abc import Iterator

import numpy as np

from benchmarks import children, loss_race, rival_environments
from examples import mnist

DAMPING = {
    "tensorflow-kfac": {"autoencoder": (0.01, 0.001, 0.0001), "convnet": (0.1, 0.03, 0.01)},
    "kfac-jax": {"autoencoder": (1.0, 0.1, 0.01)},
}
"""What each K-FAC may choose from on its problems: its damping at first, which it adapts then."""


def grid(name: str, problem: str) -> Iterator[dict[str, float]]:
    """Yields for each race of a rival on a problem its setting and that of Adam."""
    rates = loss_race.SETTINGS[loss_race.RIVAL][problem]
    for rate, damping in zip(rates, DAMPING[name][problem], strict=True):
        yield {loss_race.RIVAL: rate, "kfac": damping}


def race(
    name: str, python: str, problem: str, seed: int, steps: int, seconds: float
) -> list[loss_race.Curve]:
    """Has a rival and Adam train in its own environment, in blocks that take turns.

    Args:
      name: Of the rival.
      python: Of its environment.
      problem: One of `loss_race.PROBLEMS`.
      seed: Of weights and batches.
      steps: Of Adam; rounded down to a multiple of its block.
      seconds: After which it is given up.

    Raises:
      children.ChildError: It failed, or took too long.
    """
    from benchmarks import loss_programs  # noqa: PLC0415

    optimizers = (loss_race.RIVAL, "kfac")
    task = {
        "problem": problem,
        "seed": seed,
        "batch_size": loss_programs.BATCH_SIZE,
        "warm_up": loss_programs.WARM_UP,
        "grid": list(grid(name, problem)),
        "blocks": {optimizer: loss_race.BLOCK[optimizer] for optimizer in optimizers},
        "rounds": steps // loss_race.BLOCK[loss_race.RIVAL],
    }
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "digits.npz"
        _write(path, problem, seed)
        command = rival_environments.command(name, python, "losses", str(path), json.dumps(task))
        runs = children.read_json(command, f"race {name}, {problem}, seed {seed}", seconds)
    return [loss_race.Curve(problem=problem, seed=seed, **run) for run in runs]


def _write(path: pathlib.Path, problem: str, seed: int) -> None:
    """Writes the digits, and the weights that our programs start from."""
    from benchmarks import loss_programs  # noqa: PLC0415

    program = loss_programs.Program(problem, "momentum", 0.0, seed)
    start = {f"start_{index}": value for index, value in enumerate(program.weights())}
    program.close()
    train = mnist.load_digits().train
    np.savez(path, images=train.images, labels=train.labels, **start)
