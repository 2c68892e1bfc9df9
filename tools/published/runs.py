"""Runs of one program: on one tower, on two, and rewritten without the runner."""

import contextlib
import dataclasses
import enum
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tools.published.program import Program, filled, set_up
from tools.published.results import results_of
from tools.published.sources import Sources

_ROOT = Path(__file__).resolve().parents[2]
_OURS = ("replicate", "kfac", "model_deploy")
_ERROR = re.compile(r"(?:[\w.]*(?:Error|Exception|Interrupt|Exit|Warning)\b.*|replicate\.\w+: .+)")
_FOLDERS = ("source", "data", "out", "home", "packages")
_LONGEST = 200
_AGAIN = 3
_REWRITER_OPTIONS = ("--python2",)
_ONE_THREAD = {
    "OMP_NUM_THREADS": "1",
    "TF_NUM_INTEROP_THREADS": "1",
    "TF_NUM_INTRAOP_THREADS": "1",
}
_FIND = "import importlib.util as u, sys; print(*[n for n in sys.argv[1:] if not u.find_spec(n)])"


class Way(enum.Enum):
    """A way to run a program."""

    ONE = "one tower"
    TWO = "two towers"
    REWRITTEN = "rewritten"
    AGAIN = "one tower again"


@dataclasses.dataclass(frozen=True)
class Run:
    """A run that has ended.

    Attributes:
      results: Numbers that it printed, in order.
      stopper: What ended it too early, "" if it ran to its end.
      secs: Seconds that it took.
      output: All that it printed.
    """

    results: tuple[float, ...] = ()
    stopper: str = ""
    secs: float = 0.0
    output: str = ""


@dataclasses.dataclass(frozen=True)
class Runner:
    """The part that all runs have in common.

    Attributes:
      sources: Where programs are from.
      python: The Python that runs them.
      timeout: Seconds for each command.
    """

    sources: Sources
    python: str = sys.executable
    timeout: float = 300.0

    def run(self, program: Program) -> dict[Way, Run]:
        """Runs a program in each way that it has, in folders that are deleted then.

        If the rewritten one prints other numbers than it does on one tower, it runs there again,
        until it differs from itself, `_AGAIN` times at the most.

        Raises:
          AbsentSourcesError: The sources cannot be had.
        """
        two = (Way.TWO,) if program.has_estimator else ()
        runs = {way: self._run(program, way) for way in (Way.ONE, *two, Way.REWRITTEN)}
        one, rewritten = runs[Way.ONE], runs[Way.REWRITTEN]
        for _ in range(_AGAIN):
            if one.stopper or rewritten.stopper or one.results == rewritten.results:
                break
            runs[Way.AGAIN] = self._run(program, Way.AGAIN)
            if runs[Way.AGAIN].results != one.results:
                break
        return runs

    def missing(self, program: Program) -> list[str]:
        """Returns the modules that a program imports and that the Python has not."""
        command = [self.python, "-c", _FIND, *program.packages]
        done = subprocess.run(command, capture_output=True, text=True, check=True)  # noqa: S603
        return done.stdout.split()

    def _run(self, program: Program, way: Way) -> Run:
        with tempfile.TemporaryDirectory(prefix="published_") as folder:
            return self._run_in(Path(folder), program, way)

    def _run_in(self, folder: Path, program: Program, way: Way) -> Run:
        places = {name: str(folder / name) for name in _FOLDERS}
        for place in places.values():
            os.mkdir(place)
        source = Path(places["source"])
        self.sources.write(program.repository, program.commit, source / program.place)
        for repository, commit, place in program.beside:
            self.sources.write(repository, commit, source / place)
        set_up(program, source, places)
        program.data(Path(places["data"]))
        environment = _environment(program, folder, places)
        start = time.monotonic()
        output = ""
        begin = _begin(way, self.python, program.options)
        commands = [[*begin, *each] for each in (*program.first, program.arguments)]
        if way is Way.REWRITTEN:
            modules = source / (program.rewritten or program.folder)
            options = [each for each in program.options if each in _REWRITER_OPTIONS]
            rewrite = ["-m", "replicate.migrate", "--write", *options, str(modules)]
            done = self._ended([self.python, *rewrite], Path(places["out"]), environment)
            if done[0] not in (0, 4):  # 4: something is left to do by hand.
                return Run((), _stopper(*done, places), time.monotonic() - start, done[1])
        for command in commands:
            given = [filled(each, places) for each in command]
            code, told = self._ended(given, source / program.folder, environment)
            output += told
            if code != 0:
                return Run((), _stopper(code, told, places), time.monotonic() - start, output)
        told = output
        if program.result_file:
            told = Path(filled(program.result_file, places)).read_text(errors="replace")
        results = results_of(program.result, told)
        stopper = "" if results else "it printed no result"
        return Run(results, stopper, time.monotonic() - start, output)

    def _ended(
        self, command: list[str], folder: Path, environment: dict[str, str]
    ) -> tuple[int | None, str]:
        """Returns exit code and output of a command; None for one that took too long."""
        with tempfile.TemporaryFile("w+", errors="replace") as output:
            process = subprocess.Popen(  # noqa: S603 - the public program
                command,
                cwd=folder,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            try:
                code = process.wait(self.timeout)
            except subprocess.TimeoutExpired:
                code = None
            finally:
                _end_group(process)
            output.seek(0)
            return code, output.read()


def _begin(way: Way, python: str, options: tuple[str, ...]) -> list[str]:
    """Returns the command that starts a program in a way, without the program."""
    if way is Way.REWRITTEN:
        return [python]
    towers = ["--num_towers=2"] if way is Way.TWO else []
    return [python, "-m", "replicate.compat", *options, *towers]


def _environment(program: Program, folder: Path, places: dict[str, str]) -> dict[str, str]:
    """Returns the variables of a run: this project's packages and seeds, and an empty home.

    One thread runs the operations, so that sums are in one order.
    """
    packages = folder / "packages"
    for name in _OURS:
        (packages / name).symlink_to(_ROOT / name)
    shutil.copy(Path(__file__).with_name("seeds.py"), packages / "sitecustomize.py")
    kept = {name: os.environ[name] for name in ("PATH", "LANG", "TMPDIR") if name in os.environ}
    return {
        **kept,
        "HOME": places["home"],
        "PYTHONPATH": str(packages),
        "PYTHONHASHSEED": "0",
        "MPLBACKEND": "Agg",
        "TF_CPP_MIN_LOG_LEVEL": "2",
        "TF_ENABLE_ONEDNN_OPTS": "1",
        **_ONE_THREAD,
        **{name: filled(value, places) for name, value in program.environment.items()},
    }


def _end_group(process: subprocess.Popen[bytes]) -> None:
    """Ends a process that we started, with its children."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _stopper(code: int | None, output: str, places: dict[str, str]) -> str:
    """Returns one line that tells why a program stopped, without the machine's paths."""
    if code is None:
        return "not done in time"
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    errors = [line for line in lines if _ERROR.match(line)]
    told = errors[-1] if errors else f"exit code {code}"
    for place in (*places.values(), str(_ROOT), sys.prefix):
        told = told.replace(f"{place}/", "").replace(place, "")
    return told if len(told) <= _LONGEST else f"{told[:_LONGEST]}…"
