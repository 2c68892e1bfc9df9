"""How long a step of tensorflow/kfac takes, as a multiple of momentum SGD on the same TensorFlow.

The models, batches and intervals are those of `benchmarks.kfac_step`, whose ratios these are
to be set beside. Each rival is installed into a virtual environment of its own, which this program
makes once with pip; none is ever imported here.

    python -m benchmarks.rival_step --rival=tensorflow-kfac --model=convnet --repeats=5
"""

import json
import pathlib
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple, TypeAlias

from absl import app, flags

from benchmarks import record, timing

ROOT = pathlib.Path(__file__).parents[1]
MODELS = ("convnet", "autoencoder")

Times: TypeAlias = Mapping[str, Sequence[float]]
"""Seconds per step of each block, of "momentum" and "kfac"."""

FLAGS = flags.FLAGS


class Rival(NamedTuple):
    """Another K-FAC.

    Attributes:
      program: In `benchmarks/rivals`; prints `Times`.
      packages: What pip installs.
      alone: What pip installs after them without what these say that they need.
    """

    program: str
    packages: tuple[str, ...]
    alone: tuple[str, ...] = ()


RIVALS = {
    "tensorflow-kfac": Rival(
        "tensorflow_kfac_steps.py",
        ("tensorflow-cpu==2.15.*", "tensorflow-probability==0.23.*"),
        ("kfac==0.2.4",),  # It asks for TensorFlow Probability of 2019, and works with a later one.
    ),
}


def install(name: str, folder: pathlib.Path) -> pathlib.Path:
    """Makes the environment of a rival, unless it is there; returns its Python."""
    rival = RIVALS[name]
    python = folder / name / "bin" / "python"
    ready = folder / name / ".ready"
    if not ready.exists():
        base = _run(["bash", str(ROOT / "tools" / "find_python.sh"), "tf215"]).strip()
        _run([base, "-m", "venv", "--clear", str(folder / name)])
        pip = [str(python), "-m", "pip", "install", "--quiet"]
        _run([*pip, *rival.packages])
        if rival.alone:
            _run([*pip, "--no-deps", *rival.alone])
        ready.touch()
    return python


def measure(name: str, model: str, python: pathlib.Path) -> Times:
    """Has a rival time its steps in its own environment."""
    # -I: neither this folder nor PYTHONPATH is looked at, where another `kfac` is.
    program = [str(python), "-I", str(ROOT / "benchmarks" / "rivals" / RIVALS[name].program)]
    numbers = (FLAGS.batch_size, FLAGS.repeats, FLAGS.block)
    times: Times = json.loads(_run([*program, model, *map(str, numbers)]).splitlines()[-1])
    return times


def lines(found: Mapping[str, Mapping[str, Times]]) -> Iterator[str]:
    """Yields the lines of a table, by model and rival."""
    yield f"{'':<32}{'momentum ms':>24}{'K-FAC ms':>28}{'ratio':>22}"
    for model, rivals in found.items():
        for name, times in rivals.items():
            momentum, kfac = times["momentum"], times["kfac"]
            milliseconds = [[1e3 * t for t in series] for series in (momentum, kfac)]
            yield (
                f"{f'{model}, {name}':<32}{timing.spread(milliseconds[0], 1):>24}"
                f"{timing.spread(milliseconds[1], 1):>28}"
                f"{timing.spread(timing.ratios(kfac, momentum), 2):>22}"
            )


def _run(command: Sequence[str]) -> str:
    done = subprocess.run(  # noqa: S603  # Python, pip and programs of this package
        command, cwd=ROOT, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} failed:\n{done.stderr[-2000:]}")
    return done.stdout


def main(_: Sequence[str]) -> None:
    """Installs, measures, prints, writes, draws."""
    folder = pathlib.Path(FLAGS.environments).resolve()
    pythons = {name: install(name, folder) for name in FLAGS.rival}
    found = {
        model: {name: measure(name, model, python) for name, python in pythons.items()}
        for model in FLAGS.model
    }
    print("\n".join(lines(found)))
    if FLAGS.json:
        record.write(FLAGS.json, found)
    if FLAGS.picture:
        groups = {
            model: {
                name: timing.ratios(times["kfac"], times["momentum"])
                for name, times in rivals.items()
            }
            for model, rivals in found.items()
        }
        title = f"Step of tensorflow/kfac / momentum SGD, batch {FLAGS.batch_size}"
        record.draw_bars(FLAGS.picture, groups, title, "ratio")


def define_flags() -> None:
    """Defines the flags of this program; not on import, as other benchmarks have the same names."""
    flags.DEFINE_multi_enum("rival", list(RIVALS), list(RIVALS), "May be repeated.")
    flags.DEFINE_multi_enum("model", list(MODELS), MODELS, "What to train; may be repeated.")
    flags.DEFINE_integer("batch_size", 256, "Examples in a batch.", lower_bound=1)
    flags.DEFINE_integer("repeats", 5, "Pairs of blocks to time.", lower_bound=1)
    flags.DEFINE_integer("block", 10, "Steps in a block.", lower_bound=1)
    environments = str(ROOT / "runs" / "bench" / "venvs")
    flags.DEFINE_string("environments", environments, "Where the rivals' environments are.")
    flags.DEFINE_string("json", None, "File to write the measurements to.")
    flags.DEFINE_string("picture", None, "PNG file to draw the ratios to.")


if __name__ == "__main__":
    define_flags()
    app.run(main)
