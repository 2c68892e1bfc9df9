"""Checks that towers, K-FAC and their options work on the GPUs of this machine, and how fast.

The exit code is 1 if a part failed. Without a GPU the parts run on logical CPU devices, except
those that need a GPU.

    python -m benchmarks.gpu_check --folder=runs/gpu_check --part=towers
"""

import importlib
import json
import pathlib
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from absl import flags

from benchmarks import harness
from benchmarks.gpu_check.machine import Devices, Gpu, choose_devices, find_gpus, set_up
from benchmarks.gpu_check.outcome import FAILED, SKIPPED, Outcome

TENSOR_FLOAT_32_CAPABILITY = (8, 0)
"""Lowest compute capability with TensorFloat-32."""

FLAGS = flags.FLAGS


class Part(NamedTuple):
    """A part of the check.

    Attributes:
      function: Module of this package and its function from `Devices` to `Outcome`.
      seconds: Time limit.
      capability: Lowest compute capability of a GPU that can run the part, or None if the part
        needs no GPU.
    """

    function: str
    seconds: float
    capability: tuple[int, ...] | None = None

    def reason_to_skip(self, gpus: Sequence[Gpu]) -> str:
        """Returns why the GPUs cannot run the part, or ""."""
        if self.capability is None:
            return ""
        if not gpus:
            return "no GPU"
        name, found, _ = gpus[0]
        if found >= self.capability:
            return ""
        return f"{name} has compute capability {_dots(found)}, needed is {_dots(self.capability)}"


PARTS: Mapping[str, Part] = {
    "tests": Part("gpu_tests.run", 90, ()),
    "towers": Part("numbers.compare_towers", 100),
    "towers_tf32": Part("numbers.compare_tensor_float_32", 100, TENSOR_FLOAT_32_CAPABILITY),
    "inverses": Part("inverses.invert", 70),
    "mixed_precision": Part("numbers.compare_precisions", 70),
    "steps": Part("step_times.compare", 90),
}
"""Parts by name, in the order in which they run. Their limits add up to less than ten minutes."""


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
        found = Outcome(SKIPPED, reason) if reason else _run(name, devices, folder, slowdown)
        outcomes[name] = found = found._replace(seconds=time.monotonic() - started)
        print(f"{name:<16}{found.verdict:<8}{found.seconds:>5.0f} s  {found.summary}", flush=True)
    return outcomes


def _run(name: str, devices: Devices, folder: pathlib.Path, slowdown: float) -> Outcome:
    """Runs a part in another process and returns its outcome."""
    file = folder / f"{name}.json"
    file.unlink(missing_ok=True)
    options = f"--part={name}", f"--devices={json.dumps(devices)}", f"--folder={folder}"
    command = harness.command("gpu_check", *options)
    limit = slowdown * PARTS[name].seconds
    trouble = harness.run_in_time(command, folder / f"{name}.log", limit)
    if trouble:
        return Outcome(FAILED, trouble)
    return Outcome(**json.loads(file.read_text(encoding="utf-8")))


def _run_here(name: str, devices: Devices, folder: pathlib.Path) -> None:
    """Runs a part in this process and writes its outcome to its file."""
    module, _, function = PARTS[name].function.partition(".")
    if name != "tests":
        set_up(devices)
    part = getattr(importlib.import_module(f"benchmarks.gpu_check.{module}"), function)
    text = json.dumps(part(devices)._asdict())
    (folder / f"{name}.json").write_text(text, encoding="utf-8")


def report(gpus: Sequence[Gpu], devices: Devices, outcomes: Mapping[str, Outcome]) -> Iterator[str]:
    """Yields the lines of report.md."""
    yield from ("# GPU check", "", f"{devices}.", "")
    if gpus:
        rows = [[name, _dots(found), f"{memory / 2**30:.1f}"] for name, found, memory in gpus]
        yield from harness.table(("GPU", "compute capability", "memory, GiB"), rows)
    else:
        yield "No GPU: this run shows only that the check works. It says nothing about GPUs."
    parts = [[n, each.verdict, round(each.seconds), each.summary] for n, each in outcomes.items()]
    yield from ("", *harness.table(("part", "verdict", "seconds", "summary"), parts))
    for name, each in outcomes.items():
        yield from each.lines(name)


def _dots(capability: Sequence[int]) -> str:
    return ".".join(map(str, capability)) or "unknown"


def main(_: Sequence[str]) -> int:
    """Runs the chosen parts and returns the exit code. With --devices, runs one in this process."""
    folder = pathlib.Path(FLAGS.folder).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    if FLAGS.devices:
        names, part_megabytes = json.loads(FLAGS.devices)
        _run_here(FLAGS.part[0], Devices(tuple(names), part_megabytes), folder)
        return 0
    gpus = find_gpus()
    devices = choose_devices(gpus)
    print(", ".join(gpu.name for gpu in gpus) or "no GPU", devices, sep=": ", flush=True)
    outcomes = check(FLAGS.part, gpus, devices, folder, FLAGS.slowdown)
    measured = {
        "gpus": [gpu._asdict() for gpu in gpus],
        "devices": devices._asdict(),
        "parts": {name: each._asdict() for name, each in outcomes.items()},
    }
    harness.write_record(str(folder / "report.json"), measured)
    text = "\n".join(report(gpus, devices, outcomes))
    (folder / "report.md").write_text(text + "\n", encoding="utf-8")
    print(f"the report is {folder / 'report.md'}")
    return int(any(each.verdict == FAILED for each in outcomes.values()))


def define_flags() -> None:
    """Defines the flags. Not done on import, since other benchmarks use the same names."""
    folder = str(harness.ROOT / "runs" / "gpu_check")
    flags.DEFINE_multi_enum("part", list(PARTS), list(PARTS), "Part to run; may be repeated.")
    flags.DEFINE_string("folder", folder, "Output folder.")
    flags.DEFINE_float("slowdown", 1.0, "Factor of the time limits, for a busy machine.", 1.0)
    flags.DEFINE_string("devices", "", "Devices as JSON: run the part in this process.")


if __name__ == "__main__":
    define_flags()
    harness.run(main)
