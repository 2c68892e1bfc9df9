"""Runs the benchmarks one after the other, each in its own process with a time limit.

Each writes NAME.json and, with its standard error, NAME.log to the folder. Some draw NAME.png.

    python -m benchmarks --name=tower_step --folder=runs/bench
"""

import os
import pathlib
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from absl import flags

from benchmarks import harness

PYTHON_TF215 = harness.ROOT / ".venv-tf215" / "bin" / "python"
JSON = "--json={file}.json"
PICTURE = "--picture={file}.png"


class Plan(NamedTuple):
    """Command line and time limit of a benchmark.

    Attributes:
      module: Module of this package to run.
      minutes: Time limit, several times the usual time on two idle cores.
      options: Command-line options.
      files: Options with paths to read or write. {folder} is the output folder, {file} is the
        folder and the name of the benchmark.
      on_tf215: True to pass the Python of TensorFlow 2.15 as --python.
    """

    module: str
    minutes: float
    options: tuple[str, ...] = ()
    files: tuple[str, ...] = (JSON,)
    on_tf215: bool = False


class Outcome(NamedTuple):
    """Outcome of a benchmark."""

    seconds: float
    trouble: str


PLANS: Mapping[str, Plan] = {
    "tower_step": Plan("tower_step", 15, ("--rounds=9",), (JSON, PICTURE)),
    "estimator_overhead": Plan("estimator_overhead", 6, ("--repeats=5",), on_tf215=True),
    "kfac_step": Plan("kfac_step", 26, ("--rival=tensorflow-kfac",)),
    "canned_kfac": Plan("canned_kfac", 10),
    "keras_fit": Plan("keras_fit", 10),
    "transformer": Plan("transformer", 480),
    "adaptive_kfac": Plan("adaptive_kfac", 15),
    "kfac_step_1024": Plan(
        "kfac_step", 10, ("--batch_size=1024", "--repeats=5", "--block=10", "--model=convnet")
    ),
    "time_to_loss": Plan(
        "time_to_loss",
        30,
        ("--seeds=2", "--rival_seeds=1", "--rival=tensorflow-kfac", "--seconds=900"),
        (JSON, PICTURE),
    ),
    "resnet_kfac": Plan(
        "resnet_kfac", 10, ("--network=resnet20", "--curvature_share=0.125", "--steps=100")
    ),
    "start": Plan("start", 30, ("--network=resnet20", "--rival=tensorflow-kfac")),
    "memory": Plan("memory", 25, ("--repeats=1", "--rival=tensorflow-kfac")),
    "checkpoint_time": Plan("checkpoint_time", 15),
    "device_traffic": Plan("device_traffic", 10),
    "scaling": Plan("scaling", 90),
}
"""Plans by name, in the order in which they run."""

FLAGS = flags.FLAGS


def command(plan: Plan, name: str, folder: pathlib.Path, python_tf215: str) -> list[str]:
    """Returns the command line of a benchmark."""
    files = [option.format(file=folder / name, folder=folder) for option in plan.files]
    other_python = [f"--python={python_tf215}"] if plan.on_tf215 else []
    return [
        sys.executable,
        "-m",
        f"benchmarks.{plan.module}",
        *plan.options,
        *other_python,
        *files,
    ]


def run_all(names: Sequence[str], folder: pathlib.Path, python_tf215: str) -> dict[str, Outcome]:
    """Runs benchmarks one after the other and returns their outcomes by name."""
    outcomes = {}
    for name in names:
        print(f"== {name}", flush=True)
        plan = PLANS[name]
        started = time.monotonic()
        if plan.on_tf215 and not pathlib.Path(python_tf215).exists():
            trouble = (
                f"no TensorFlow 2.15 at {python_tf215}; `make .venv-tf215/.ready-tf215` makes one"
            )
        else:
            arguments = command(plan, name, folder, python_tf215)
            trouble = harness.run_in_time(arguments, folder / f"{name}.log", 60 * plan.minutes)
        outcomes[name] = Outcome(time.monotonic() - started, trouble)
        print(trouble, flush=True)
    return outcomes


def lines(outcomes: Mapping[str, Outcome]) -> Iterator[str]:
    """Yields a line for each benchmark and a line with the total time."""
    for name, (seconds, trouble) in outcomes.items():
        yield f"{name:<24}{seconds:>8.0f} s   {trouble or 'done'}"
    yield f"{'':<24}{sum(outcome.seconds for outcome in outcomes.values()):>8.0f} s"


def main(_: Sequence[str]) -> int:
    """Runs the chosen benchmarks and returns the exit code."""
    folder = pathlib.Path(FLAGS.folder).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    outcomes = run_all(FLAGS.name, folder, os.path.abspath(FLAGS.python_tf215))
    print("\n".join(lines(outcomes)))
    print(f"measurements and pictures are in {folder}")
    return int(any(outcome.trouble for outcome in outcomes.values()))


def define_flags() -> None:
    """Defines the flags. Not done on import, since other benchmarks use the same names."""
    flags.DEFINE_multi_enum("name", list(PLANS), list(PLANS), "Benchmark to run; may be repeated.")
    flags.DEFINE_string("folder", str(harness.ROOT / "runs" / "bench"), "Output folder.")
    flags.DEFINE_string("python_tf215", str(PYTHON_TF215), "Python of TensorFlow 2.15.")


if __name__ == "__main__":
    define_flags()
    harness.run(main)
