"""Clusters of real processes on this machine: what they print, when, and what is left of them.

All that the processes print is printed here as well, so that pytest shows it when a test fails.
"""

import contextlib
import functools
import importlib.util
import os
import re
import sys
import time
from pathlib import Path

import pytest

from replicate.launch import Supervisor, cluster_plan

ROOT = Path(__file__).resolve().parents[2]


def load(name):
    """Returns a module of this directory, which is no package."""
    spec = importlib.util.spec_from_file_location(
        f"reliability_{name}", Path(__file__).with_name(f"{name}.py")
    )
    sys.modules[spec.name] = module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def network():
    """The module `proxy.py`."""
    return load("proxy")


@pytest.fixture(scope="session")
def faulty():
    """The module `faults.py`."""
    return load("faults")


@pytest.fixture(scope="session")
def print_row():
    """Prints a row of a table of `docs/explanations/reliability_measured.md`."""

    def print_cells(*cells):
        print(f"| {' | '.join(map(str, cells))} |")

    return print_cells


@pytest.fixture(scope="session")
def kill():
    """The module `kills.py`."""
    return load("kills")


@pytest.fixture
def proxies(network):
    """Makes links through proxies."""
    with network.Proxies() as links:
        yield links


@pytest.fixture
def proxied_plan(proxies):
    """Plans a cluster whose tasks reach each other through proxies."""

    def plan(workers=2, ps=1, evaluator=False):
        plain = cluster_plan(workers, ps, evaluator=evaluator)
        return load("proxied_plan").ProxiedPlan(plain, proxies)

    return plan


@pytest.fixture
def through_proxies():
    """Arguments of Python before those of a program whose tasks have a proxied plan."""
    return ["-c", load("proxied_plan").PROGRAM]


class Journal:
    """A display that keeps every line with its time, and calls a function with it."""

    bar_columns = 0

    def __init__(self):
        self.entries = []
        self._starts = {}
        self.react = lambda name, text: None

    def line(self, name, text, is_error=False):
        self.entries.append((time.monotonic(), name, text))
        print(f"{name:<11} | {text}")
        match = re.search(r": process (\d+)$", text) if name == "launch" else None
        if match:
            self._starts[int(match[1])] = start_of(int(match[1]))
        self.react(name, text)

    def bar(self, name, text):
        """There is none without a terminal."""

    def of(self, name):
        """Lines of a task."""
        return [text for _, who, text in self.entries if who == name]

    def left(self):
        """Numbers of the processes that were started and have not ended."""
        return [pid for pid, start in self._starts.items() if start and start_of(pid) == start]


def start_of(pid):
    """Returns the time at which a process was started, None if it has ended.

    The system gives the number of a process to another one later.
    """
    try:
        values = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return None if values[0] == "Z" else values[19]


@pytest.fixture
def journal():
    return Journal()


_AS_PYTHON_DOES = """
import os, runpy, sys
del sys.argv[0]
if sys.argv[0] == "-c":
    exec(sys.argv.pop(1))
elif sys.argv[0] == "-m":
    del sys.argv[0]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
else:
    sys.path.insert(0, os.path.dirname(sys.argv[0]))
    runpy.run_path(sys.argv[0], run_name="__main__")
"""


class Task:
    """A `ProcessHandle`: a fork that runs a task's command."""

    def __init__(self, fork):
        self._fork = fork
        self.pid = fork.pid
        self.label = f"process {fork.pid}"
        self.stdout, self.stderr = fork.stdout.fileno(), fork.stderr.fileno()
        self.send_signal, self.close = fork.send_signal, fork.close

    def poll(self):
        code = self._fork.poll()
        return code if code is None or code >= 0 else 128 - code

    def kill(self):
        self._fork.kill()
        self._fork.wait()


class ForkBackend(contextlib.nullcontext):
    """A backend for tasks that have imported TensorFlow before they start."""

    def __init__(self, start_python, prelude=""):
        """`prelude` runs in each task before its command."""
        super().__init__()
        self._start_python = start_python
        self._program = f"exec({prelude!r}, {{}})\n{_AS_PYTHON_DOES}"

    def start(self, plan):
        arguments = plan.command[1:]
        return Task(self._start_python(self._program, *arguments, environment=plan.environment))


@pytest.fixture(scope="session")
def fork_backend(start_python):
    """Makes a backend for tasks that are forks; a text runs in each before its command."""
    return functools.partial(ForkBackend, start_python)


@pytest.fixture
def cluster(journal, request):
    """Makes a supervised cluster whose tasks all run one Python program.

    Every task of a slow test starts Python anew, as users' tasks do, unless `forks` is True.
    """
    is_slow = request.node.get_closest_marker("slow") is not None

    def make(
        *arguments,
        workers=2,
        ps=1,
        evaluator=True,
        environment=None,
        plan=None,
        forks=not is_slow,
        **settings,
    ):
        outer = {name: v for name, v in os.environ.items() if not name.lower().endswith("_proxy")}
        return Supervisor(
            plan or cluster_plan(workers, ps, evaluator=evaluator),
            [sys.executable, *map(str, arguments)],
            journal,
            backend=request.getfixturevalue("fork_backend")() if forks else None,
            environment={
                **outer,
                "PYTHONPATH": str(ROOT),
                "PYTHONUNBUFFERED": "1",
                "TF_CPP_MIN_LOG_LEVEL": "2",
                **(environment or {}),
            },
            **settings,
        )

    yield make
    assert not journal.left(), "processes are left"
