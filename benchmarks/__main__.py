"""Runs the benchmarks one after the other, each in its own process with a time limit.

Each writes NAME.json and, with its standard error, NAME.log to the folder. Some draw NAME.png.

    python -m benchmarks --name=tower_step --folder=runs/bench
"""

import os
import pathlib
import time
from collections.abc import Mapping, Sequence

from absl import flags

from benchmarks import harness

PYTHON_TF215 = harness.ROOT / ".venv-tf215" / "bin" / "python"
_RIVAL = "--rival=tensorflow-kfac"

PLANS: Mapping[str, tuple[float, str]] = {
    "tower_step": (15, "tower_step --rounds=9 --picture={file}.png"),
    "estimator_overhead": (6, "estimator_overhead --repeats=5 --python={tf215}"),
    "kfac_step": (26, f"kfac_step {_RIVAL}"),
    "canned_kfac": (10, "canned_kfac"),
    "keras_fit": (10, "keras_fit"),
    "transformer": (480, "transformer"),
    "adaptive_kfac": (15, "adaptive_kfac"),
    "kfac_step_1024": (10, "kfac_step --batch_size=1024 --repeats=5 --block=10 --model=convnet"),
    "time_to_loss": (
        30,
        f"time_to_loss --seeds=2 --rival_seeds=1 {_RIVAL} --seconds=900 --picture={{file}}.png",
    ),
    "resnet_kfac": (10, "resnet_kfac --network=resnet20 --curvature_share=0.125 --steps=100"),
    "start": (30, f"start --network=resnet20 {_RIVAL}"),
    "memory": (25, f"memory --repeats=1 {_RIVAL}"),
    "checkpoint_time": (15, "checkpoint_time"),
    "device_traffic": (10, "device_traffic"),
    "scaling": (90, "scaling"),
}
"""Minutes, several times the usual ones on two idle cores, and module with options, by name.

{file} is the output folder with the name, {tf215} the Python of TensorFlow 2.15.
"""

FLAGS = flags.FLAGS


def command(name: str, folder: pathlib.Path, tf215: str) -> list[str]:
    """Returns the command line of a benchmark."""
    file = folder / name
    module, *options = (word.format(file=file, tf215=tf215) for word in PLANS[name][1].split())
    return harness.command(module, *options, f"--json={file}.json")


def run(name: str, folder: pathlib.Path, tf215: str) -> tuple[str, float, str]:
    """Runs a benchmark; returns its name, its seconds, and an error text or "done"."""
    print(f"== {name}", flush=True)
    started = time.monotonic()
    minutes, plan = PLANS[name]
    if "{tf215}" in plan and not pathlib.Path(tf215).exists():
        trouble = f"no TensorFlow 2.15 at {tf215}; `make .venv-tf215/.ready-tf215` makes one"
    else:
        log = folder / f"{name}.log"
        trouble = harness.run_in_time(command(name, folder, tf215), log, 60 * minutes)
    print(trouble, flush=True)
    return name, round(time.monotonic() - started), trouble or "done"


def main(_: Sequence[str]) -> int:
    """Runs the chosen benchmarks and returns the exit code."""
    folder = pathlib.Path(FLAGS.folder).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    tf215 = os.path.abspath(FLAGS.python_tf215)
    rows = [run(name, folder, tf215) for name in FLAGS.name]
    print("\n".join(harness.table(("benchmark", "seconds", "outcome"), rows)))
    print(f"measurements and pictures are in {folder}")
    return int(any(outcome != "done" for *_, outcome in rows))


def define_flags() -> None:
    """Defines the flags. Not done on import, since other benchmarks use the same names."""
    flags.DEFINE_multi_enum("name", list(PLANS), list(PLANS), "Benchmark to run; may be repeated.")
    flags.DEFINE_string("folder", str(harness.ROOT / "runs" / "bench"), "Output folder.")
    flags.DEFINE_string("python_tf215", str(PYTHON_TF215), "Python of TensorFlow 2.15.")


if __name__ == "__main__":
    define_flags()
    harness.run(main)
