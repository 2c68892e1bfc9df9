"""Checks that towers, K-FAC and their options work on the GPUs of this machine, and how fast.

Each part runs in its own process with a time limit. Its standard error goes to PART.log. The
folder gets report.json and report.md. The exit code is 1 if a part failed. Without a GPU the parts
run on logical CPU devices, except those that need a GPU.

    python -m benchmarks.gpu_check --folder=runs/gpu_check --part=towers
"""

import dataclasses
import json
import pathlib
import time
from collections.abc import Sequence

from absl import flags

from benchmarks import harness
from benchmarks.gpu_check import report, run_part
from benchmarks.gpu_check.devices import Devices, Gpu, choose_devices, find_gpus
from benchmarks.gpu_check.outcome import Outcome, Verdict, failed, from_json, skipped
from benchmarks.gpu_check.parts import PARTS

FLAGS = flags.FLAGS


def check(
    names: Sequence[str],
    gpus: Sequence[Gpu],
    devices: Devices,
    folder: pathlib.Path,
    slowdown: float = 1.0,
) -> dict[str, Outcome]:
    """Runs parts one after the other, prints a line for each, and returns their outcomes."""
    outcomes = {}
    for name in names:
        started = time.monotonic()
        reason = PARTS[name].reason_to_skip(gpus)
        found = skipped(reason) if reason else _run(name, devices, folder, slowdown)
        outcomes[name] = dataclasses.replace(found, seconds=time.monotonic() - started)
        print(report.line(name, outcomes[name]), flush=True)
    return outcomes


def _run(name: str, devices: Devices, folder: pathlib.Path, slowdown: float) -> Outcome:
    """Runs a part in another process and returns its outcome."""
    file = folder / f"{name}.json"
    file.unlink(missing_ok=True)
    command = run_part.command(name, devices, file)
    limit = slowdown * PARTS[name].seconds
    trouble = harness.run_in_time(command, folder / f"{name}.log", limit)
    if trouble:
        return failed(trouble)
    return from_json(json.loads(file.read_text(encoding="utf-8")))


def main(_: Sequence[str]) -> int:
    """Runs the chosen parts and returns the exit code."""
    folder = pathlib.Path(FLAGS.folder).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    gpus = find_gpus()
    devices = choose_devices(gpus)
    print(", ".join(gpu.name for gpu in gpus) or "no GPU", devices, sep=": ", flush=True)
    outcomes = check(FLAGS.part, gpus, devices, folder, FLAGS.slowdown)
    report.write(folder, gpus, devices, outcomes)
    print(f"the report is {folder / 'report.md'}")
    return int(any(outcome.verdict is Verdict.FAILED for outcome in outcomes.values()))


def define_flags() -> None:
    """Defines the flags. Not done on import, since other benchmarks use the same names."""
    flags.DEFINE_multi_enum("part", list(PARTS), list(PARTS), "Part to run; may be repeated.")
    flags.DEFINE_string("folder", str(harness.ROOT / "runs" / "gpu_check"), "Output folder.")
    flags.DEFINE_float(
        "slowdown", 1.0, "Factor of the time limits, for a busy machine.", lower_bound=1.0
    )


if __name__ == "__main__":
    define_flags()
    harness.run(main)
