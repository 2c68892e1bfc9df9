"""Runs the benchmarks one after the other, each in a process of its own and for a limited time.

Each prints its table and leaves NAME.json, NAME.png and, with what else it said, NAME.log in a
folder. One that fails does not stop the others; the exit code is 1 then. Only the points of the
cluster have no picture: `scaling` draws them, and measures nothing itself.

    python -m benchmarks --name=tower_step --folder=runs/bench
"""

import contextlib
import os
import pathlib
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from absl import app, flags

from benchmarks import harness

PYTHON_TF215 = harness.ROOT / ".venv-tf215" / "bin" / "python"
JSON = "--json={file}.json"
PICTURE = "--picture={file}.png"
GRACE_SECS = 10.0
"""What a benchmark that is stopped has to end the processes that it started."""


class Plan(NamedTuple):
    """How a benchmark is run here.

    Attributes:
      module: Of this package.
      minutes: After which it is stopped; several times what it takes on two idle cores.
      options: Of its command line.
      files: Options that name what it writes or reads; {file} is the folder and its name.
      on_tf215: Whether it is told the Python of TensorFlow 2.15.
    """

    module: str
    minutes: float
    options: tuple[str, ...] = ()
    files: tuple[str, ...] = (JSON, PICTURE)
    on_tf215: bool = False


class Outcome(NamedTuple):
    """What came of a benchmark.

    Attributes:
      seconds: That it took.
      trouble: Why there is no result; empty if there is one.
    """

    seconds: float
    trouble: str


PLANS: Mapping[str, Plan] = {
    "tower_step": Plan("tower_step", 15, ("--rounds=9",)),
    "estimator_overhead": Plan("estimator_overhead", 6, ("--repeats=5",), on_tf215=True),
    "kfac_step": Plan("kfac_step", 6),
    "kfac_step_1024": Plan(
        "kfac_step", 10, ("--batch_size=1024", "--repeats=5", "--block=10", "--model=convnet")
    ),
    "rival_step": Plan("rival_step", 20),
    "rival_memory": Plan("rival_memory", 10),
    "time_to_loss": Plan(
        "time_to_loss", 20, ("--seeds=2", "--rival_seeds=1", "--rival=tensorflow-kfac")
    ),
    "graph_build": Plan("graph_build", 15, ("--repeats=5",)),
    "memory": Plan("memory", 10, ("--repeats=1",)),
    "checkpoint_time": Plan("checkpoint_time", 15),
    "cluster_points": Plan("scaling.cluster_points", 15, files=(JSON,)),
    "scaling": Plan("scaling", 5, files=("--points={folder}/cluster_points.json", PICTURE)),
}
"""By name, in the order in which they are run."""

FLAGS = flags.FLAGS


def command(plan: Plan, name: str, folder: pathlib.Path, python_tf215: str) -> list[str]:
    """Returns the command line of a benchmark.

    Args:
      plan: What to run.
      name: Of the files that it writes.
      folder: Where they go.
      python_tf215: The Python of TensorFlow 2.15.
    """
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


def run(arguments: Sequence[str], log: pathlib.Path, seconds: float) -> str:
    """Runs a program, which prints on our terminal; ends all processes of it if it takes too long.

    Args:
      arguments: Its command line.
      log: File for its standard error.
      seconds: That it may take.

    Returns:
      What went wrong, or nothing.
    """
    with log.open("w", encoding="utf-8") as file:
        process = subprocess.Popen(  # noqa: S603  # the programs are those of this package
            arguments, cwd=harness.ROOT, stderr=file, start_new_session=True
        )
        try:
            code = process.wait(seconds)
        except subprocess.TimeoutExpired:
            return f"stopped after {seconds:.0f} s; see {log}"
        finally:
            _end(process)
    return f"exit code {code}; see {log}" if code else ""


def _end(process: subprocess.Popen[bytes]) -> None:
    """Ends a program that still runs, and what it has started."""
    if process.poll() is not None:
        return
    os.killpg(process.pid, signal.SIGTERM)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(GRACE_SECS)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def run_all(names: Sequence[str], folder: pathlib.Path, python_tf215: str) -> dict[str, Outcome]:
    """Runs benchmarks one after the other; returns what came of each."""
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
            trouble = run(arguments, folder / f"{name}.log", 60 * plan.minutes)
        outcomes[name] = Outcome(time.monotonic() - started, trouble)
        print(trouble, flush=True)
    return outcomes


def lines(outcomes: Mapping[str, Outcome]) -> Iterator[str]:
    """Yields a line for each benchmark, and their time together."""
    for name, (seconds, trouble) in outcomes.items():
        yield f"{name:<24}{seconds:>8.0f} s   {trouble or 'done'}"
    yield f"{'':<24}{sum(outcome.seconds for outcome in outcomes.values()):>8.0f} s"


def main(_: Sequence[str]) -> int:
    """Runs what is chosen; returns the exit code."""
    folder = pathlib.Path(FLAGS.folder).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    outcomes = run_all(FLAGS.name, folder, os.path.abspath(FLAGS.python_tf215))
    print("\n".join(lines(outcomes)))
    print(f"measurements and pictures are in {folder}")
    return int(any(outcome.trouble for outcome in outcomes.values()))


def define_flags() -> None:
    """Defines the flags of this program; not on import, as other benchmarks have the same names."""
    flags.DEFINE_multi_enum("name", list(PLANS), list(PLANS), "What to run; may be repeated.")
    flags.DEFINE_string("folder", str(harness.ROOT / "runs" / "bench"), "Where the files go.")
    flags.DEFINE_string("python_tf215", str(PYTHON_TF215), "Python of TensorFlow 2.15.")


if __name__ == "__main__":
    define_flags()
    app.run(main)
