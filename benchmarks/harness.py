"""Shared parts of the benchmarks: child processes, timing, records and logical devices.

Importing this module does not import TensorFlow or Matplotlib, so that `--help` of a benchmark is
quick and a child process can set up its devices first.
"""

from __future__ import annotations

import contextlib
import datetime
import importlib.metadata
import json
import math
import os
import pathlib
import resource
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NoReturn, Protocol

from absl import app, flags

from examples.lazy_module import LazyModule
from replicate import onednn

tf = LazyModule("tensorflow")
ROOT = pathlib.Path(__file__).parents[1]
_SHOWN_CHARACTERS = 2000
"""Length of the end of a failed program's standard error that is shown."""
_GRACE_SECS = 10.0
"""Time for a stopped program to end its child processes."""
_DISTRIBUTIONS = ("tensorflow-cpu", "tensorflow", "numpy", "replicate-model-fn")


class ChildError(SystemExit):
    """Failure of a child process. Ends the benchmark unless it is caught."""


def run(main: Callable[[Sequence[str]], int | None]) -> NoReturn:
    """Runs the main function of a benchmark with oneDNN, without TensorFlow's lesser messages.

    TensorFlow's profiler prints five lines for each traced step. TF_CPP_MIN_LOG_LEVEL in the
    environment, if it is set, chooses other messages than errors; TF_ENABLE_ONEDNN_OPTS chooses
    the kernels.

    Args:
      main: Takes the arguments that are no flags, and returns the exit code, None for 0. It imports
        TensorFlow itself.

    Raises:
      SystemExit: Always, with the exit code.
    """
    set_environment()
    app.run(main)


def set_environment() -> None:
    """Sets what TensorFlow reads from the environment when it is imported."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    onednn.turn_on()


def define_flags(*, picture: bool = False, here: bool = False) -> None:
    """Defines --json and, for some benchmarks, --picture and --here.

    --json and --picture are files. With --here, a process measures one case and prints JSON.
    """
    flags.DEFINE_string("json", None, "File to write the measurements to.")
    if here:
        flags.DEFINE_bool("here", False, "Measure one case in this process and print JSON.")
    if picture:
        flags.DEFINE_string("picture", None, "PNG file to draw the results to.")


def save(measured: Any) -> None:
    """Writes measurements to the file of --json, if it is given."""
    if flags.FLAGS.json:
        write_record(flags.FLAGS.json, measured)


def command(module: str, *options: str, python: str = sys.executable) -> list[str]:
    """Returns the command line that runs a benchmark in another process."""
    return [python, "-m", f"benchmarks.{module}", *options]


def given_flags(*names: str) -> list[str]:
    """Returns the options that give another process the values of some flags of this one."""
    return [f"--{name}={flags.FLAGS[name].value}" for name in names]


def run_program(command: Sequence[str], purpose: str, seconds: float | None = None) -> str:
    """Runs a program in the root of the project and returns its standard output.

    Raises:
      ChildError: The program failed or exceeded the limit.
    """
    try:
        done = subprocess.run(  # noqa: S603  # Python, pip, and programs of this package
            command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=seconds
        )
    except subprocess.TimeoutExpired as error:
        raise ChildError(f"Could not {purpose} in {seconds:.0f} s.") from error
    if done.returncode:
        shown = done.stderr[-_SHOWN_CHARACTERS:]
        raise ChildError(f"Could not {purpose}; {command[0]} said:\n{shown}")
    return done.stdout


def read_json(command: Sequence[str], purpose: str, seconds: float | None = None) -> Any:
    """Runs a program like `run_program` and parses the last line of its output as JSON."""
    return json.loads(run_program(command, purpose, seconds).splitlines()[-1])


def run_in_time(arguments: Sequence[str], log: pathlib.Path, seconds: float) -> str:
    """Runs a program with a time limit; returns an error text, or "" if it succeeded.

    All its processes end if it exceeds the limit. Standard error goes to the log, standard output
    to the terminal.
    """
    with log.open("w", encoding="utf-8") as file:
        process = subprocess.Popen(  # noqa: S603  # the programs are those of this package
            arguments, cwd=ROOT, stderr=file, start_new_session=True
        )
        try:
            code = process.wait(seconds)
        except subprocess.TimeoutExpired:
            return f"stopped after {seconds:.0f} s; see {log}"
        finally:
            _end(process)
    return f"exit code {code}; see {log}" if code else ""


def _end(process: subprocess.Popen[bytes]) -> None:
    """Ends a running program and its child processes."""
    if process.poll() is not None:
        return
    os.killpg(process.pid, signal.SIGTERM)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(_GRACE_SECS)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


class Program(Protocol):
    """Program whose steps are timed."""

    def run(self, steps: int) -> float:
        """Runs some steps and returns the mean seconds per step."""


def mean_seconds(
    step: Callable[[], Any], steps: int, finish: Callable[[], Any] | None = None
) -> float:
    """Calls `step` `steps` times and returns the mean seconds per call.

    `finish` waits for work that the calls have left running; None if they leave none.
    """
    start = time.perf_counter()
    for _ in range(steps):
        step()
    if finish is not None:
        finish()
    return (time.perf_counter() - start) / steps


def take_turns(
    programs: Mapping[str, Program], rounds: int, block: int, warm_up: int
) -> dict[str, list[float]]:
    """Times the programs in alternating blocks of steps.

    Other load on the machine then slows all programs alike. Ratios within one round are therefore
    more reliable than ratios of times measured minutes apart.

    Args:
      programs: Programs by name.
      rounds: Number of blocks of each program.
      block: Steps in a block.
      warm_up: Untimed steps of each program before the first round.

    Returns:
      Seconds per step of each block, by program.
    """
    for program in programs.values():
        if warm_up:
            program.run(warm_up)
    times: dict[str, list[float]] = {name: [] for name in programs}
    for _ in range(rounds):
        for name, program in programs.items():
            times[name].append(program.run(block))
    return times


def ratios(times: Sequence[float], others: Sequence[float]) -> list[float]:
    """Returns the ratio of two programs' times in each round."""
    return [time / other for time, other in zip(times, others, strict=True)]


def spread(values: Sequence[float], digits: int, kind: str = "f") -> str:
    """Formats values as "median [smallest, largest]", and those that are not finite as "–".

    `kind` is "f" for so many decimals, "g" for as many significant digits.
    """
    median, least, most = (
        f"{value:.{digits}{kind}}" if math.isfinite(value) else "–"
        for value in (statistics.median(values), min(values), max(values))
    )
    return f"{median} [{least}, {most}]"


def markdown_row(cells: Iterable[object]) -> str:
    """Returns a line of a Markdown table."""
    return f"| {' | '.join(map(str, cells))} |"


def table(heads: Sequence[object], rows: Iterable[Sequence[object]]) -> Iterator[str]:
    """Yields the lines of a Markdown table, with columns as wide as their widest cells."""
    cells = [[f"{c:.3g}" if isinstance(c, float) else str(c) for c in row] for row in rows]
    texts = [[cell.replace("|", "\\|") for cell in row] for row in [map(str, heads), *cells]]
    widths = [max(map(len, column)) for column in zip(*texts, strict=True)]
    texts.insert(1, ["-" * width for width in widths])
    for row in texts:
        yield markdown_row(cell.ljust(width) for cell, width in zip(row, widths, strict=True))


def divide_cpu(count: int) -> list[str]:
    """Splits the CPU of this process into logical devices and returns their names.

    Call this before TensorFlow runs anything.
    """
    cpu, *_ = tf.config.list_physical_devices("CPU")
    logical = [tf.config.LogicalDeviceConfiguration()] * count
    tf.config.set_logical_device_configuration(cpu, logical)
    return cpu_names(count)


def cpu_names(count: int) -> list[str]:
    """Returns the names of the first `count` logical CPU devices."""
    return [f"/cpu:{index}" for index in range(count)]


def run_constant() -> None:
    """Runs a constant in a session, so that TensorFlow allocates its base memory."""
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        session.run(tf.constant(0))


def peak_bytes() -> int:
    """Returns the peak memory of this process so far, in bytes (`ru_maxrss`, Linux only)."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def write_record(path: str, measured: Any) -> None:
    """Writes measurements as JSON, with the date, load, processor and package versions."""
    text = json.dumps({**_circumstances(), "measured": measured}, indent=1)
    pathlib.Path(path).write_text(text + "\n", encoding="utf-8")


def _circumstances() -> dict[str, Any]:
    versions = {}
    for name in _DISTRIBUTIONS:
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return {
        "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "processor": _processor(),
        "cores": os.cpu_count(),
        "load": os.getloadavg(),
        "versions": versions,
    }


def _processor() -> str:
    info = pathlib.Path("/proc/cpuinfo")
    lines = info.read_text(encoding="utf-8").splitlines() if info.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else "unknown"
