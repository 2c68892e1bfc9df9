"""Runs the tests of a pytest-xdist worker in child processes, so that no process grows without end.

Servers of TensorFlow cannot be stopped, and each leaves its threads; sessions and traced functions
leave memory. A worker therefore collects the tests but runs none. It forks a child, which runs
tests until it has grown, and then another one. Without workers (`pytest -n 0`) tests run in
pytest's own process.

A module that takes a child beyond `LIMITS` fails the run. The largest figures of all children are
printed at the end.
"""

import importlib.util
import multiprocessing
import os
import signal
import sys
import time
import traceback
import warnings
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.programs import Server


class Usage(NamedTuple):
    """Largest memory that a process has had, and its threads."""

    megabytes: int
    threads: int

    def exceeds(self, other):
        return any(mine > limit for mine, limit in zip(self, other, strict=True))

    def largest(self, other):
        return Usage(*map(max, self, other))


LIMITS = Usage(1200, 300)
# A child that has this after a test runs no further one.
GROWN = Usage(850, 30)
PRELOADED = "keras", "tf_keras"
# The plugin of pytest-xdist that sends a worker's reports. A child's reports go to the worker.
SENDER = "WorkerInteractor"
# Seconds that a test may take beyond its own limit, which the child enforces.
GRACE_SECS = 60


def usage():
    """Returns the usage of this process."""
    lines = Path("/proc/self/status").read_text().splitlines()
    found = {name: value for name, _, value in (line.partition(":") for line in lines)}
    return Usage(int(found["VmHWM"].split()[0]) >> 10, int(found["Threads"]))


class Answer(NamedTuple):
    """One test's reports and warnings, the usage after it, and if the child ends with it."""

    reports: list
    warned: list
    used: Usage
    ends: bool


class Warned(NamedTuple):
    """A warning, without the objects that do not leave their process."""

    text: str
    category: type
    filename: str
    lineno: int
    when: str
    nodeid: str


class Recorder:
    """The plugin of a child that keeps what its worker passes on."""

    def __init__(self, config):
        self._config = config
        self.begin()

    def begin(self):
        """Forgets the test before."""
        self.reports, self.warned, self.used = [], [], usage()

    def pytest_runtest_logreport(self, report):
        to_data = self._config.hook.pytest_report_to_serializable
        self.reports.append(to_data(config=self._config, report=report))

    def pytest_warning_recorded(self, warning_message, when, nodeid):
        told = warning_message
        self.warned.append(
            Warned(str(told.message), told.category, told.filename, told.lineno, when, nodeid)
        )

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_teardown(self):
        """Measures before fixtures close what a test has opened."""
        self.used = self.used.largest(usage())
        return (yield)


def serve(session, connection):
    """Runs the tests that the worker asks for, in a child, until one of them is its last."""
    plugins = session.config.pluginmanager
    (passing_on,) = (each for each in plugins.get_plugins() if type(each).__name__ == SENDER)
    plugins.unregister(passing_on)
    recorder = Recorder(session.config)
    plugins.register(recorder)
    items = {item.nodeid: item for item in session.items}
    ends = False
    while not ends:
        nodeid, next_nodeid = connection.recv()
        item, following = items[nodeid], items.get(next_nodeid)
        recorder.begin()
        item.ihook.pytest_runtest_protocol(item=item, nextitem=following)
        ends = following is None or recorder.used.exceeds(GROWN)
        if ends and following is not None:
            tear_down(item, recorder)
        used = recorder.used.largest(usage())
        connection.send(Answer(recorder.reports, recorder.warned, used, ends))


def tear_down(item, recorder):
    """Closes what wider fixtures hold: pytest keeps it for the next test, which another runs."""
    try:
        item.session._setupstate.teardown_exact(None)
    except Exception:
        text = f"Fixtures failed when their process ended.\n{traceback.format_exc()}"
        recorder.pytest_runtest_logreport(report=failure(item, text))


def failure(item, text):
    """Returns an error report of a test, beside those of its own phases."""
    return pytest.TestReport(
        item.nodeid, item.location, dict.fromkeys(item.keywords, 1), "failed", text, "teardown"
    )


class Child:
    """The process that runs a worker's tests, as the worker sees it."""

    def __init__(self, session):
        self._connection, theirs = multiprocessing.Pipe()
        self._pid = os.fork()
        if not self._pid:
            code = 1
            try:
                self._connection.close()
                serve(session, theirs)
                code = 0
            except EOFError:  # The worker has ended.
                code = 0
            except Exception:
                traceback.print_exc()
            finally:
                os._exit(code)
        theirs.close()

    def run(self, item, nextitem, seconds):
        """Returns the answer of one test.

        Raises:
          EOFError: The child died.
          TimeoutError: It did not answer within `seconds`.
        """
        self._connection.send((item.nodeid, nextitem and nextitem.nodeid))
        if not self._connection.poll(seconds):
            raise TimeoutError(f"it did not answer within {seconds:.0f} s")
        return self._connection.recv()

    def end(self):
        """Waits for the end, and returns how it came about."""
        self._connection.close()
        _, status = os.waitpid(self._pid, 0)
        return f"it ended with code {os.waitstatus_to_exitcode(status)}"

    def kill(self):
        os.kill(self._pid, signal.SIGKILL)


class Worker:
    """The plugin of a worker: it has children run the tests, and reports what they measure."""

    def __init__(self, config):
        self._config = config
        self._child = None
        self._can_fork = True
        self._owner = os.getpid()
        self.largest = {}

    def pytest_collection(self):
        """Imports what each child that needs it would otherwise import anew, for seconds."""
        for name in PRELOADED if "tensorflow" in sys.modules else ():
            if importlib.util.find_spec(name) is not None:
                importlib.import_module(name)

    @pytest.hookimpl(wrapper=True)
    def pytest_make_collect_report(self, collector):
        """Refuses a module that starts threads when it is imported: forks would wait for them."""
        before = usage().threads
        report = yield
        if report.passed and usage().threads > before:
            self._can_fork = False
            report.outcome = "failed"
            report.longrepr = (
                f"{collector.nodeid} starts threads when it is imported, as TensorFlow does for an "
                "operation outside of a graph. The forks that run tests have none of them: move it "
                "into a fixture or a test."
            )
        return report

    @pytest.hookimpl(tryfirst=True)
    def pytest_timeout_set_timer(self):
        """The child's timer ends a test; the worker only waits a little longer."""
        return None if os.getpid() != self._owner else True

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item, nextitem):
        if os.getpid() != self._owner or not self._can_fork:
            return None
        item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
        for report in self._run(item, nextitem):
            item.ihook.pytest_runtest_logreport(report=report)
        item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
        return True

    def _run(self, item, nextitem):
        if self._child is None:
            self._child = Child(item.session)
        marker = item.get_closest_marker("timeout")
        seconds = marker.args[0] if marker else float(self._config.getini("timeout"))
        try:
            answer = self._child.run(item, nextitem, seconds + GRACE_SECS)
        except (EOFError, ConnectionError, TimeoutError) as error:
            return [self._lost(item, error)]
        if answer.ends:
            self._child.end()
            self._child = None
        for warned in answer.warned:
            self._warn(warned)
        load = self._config.hook.pytest_report_from_serializable
        reports = [load(config=self._config, data=data) for data in answer.reports]
        return reports + self._check(item, nextitem, answer.used)

    def _warn(self, warned):
        """Passes a warning on, as pytest does where it catches one."""
        told = {"when": warned.when, "nodeid": warned.nodeid, "location": None}
        told["warning_message"] = warnings.WarningMessage(*warned[:4])
        self._config.hook.pytest_warning_recorded.call_historic(kwargs=told)

    def _lost(self, item, error):
        """Ends a child that does not answer, and returns the report of its test."""
        silent = isinstance(error, TimeoutError)
        if silent:
            self._child.kill()
        end = self._child.end()
        self._child = None
        return failure(item, f"The process of the test was lost: {error if silent else end}.")

    def _check(self, item, nextitem, used):
        """Returns an error at the end of a module that took its child beyond the limits."""
        module = item.nodeid.partition("::")[0]
        used = self.largest[module] = used.largest(self.largest.get(module, used))
        if nextitem is not None and nextitem.nodeid.partition("::")[0] == module:
            return []
        if not used.exceeds(LIMITS):
            return []
        return [
            failure(
                item,
                f"{module} took its process to {used.megabytes} MB and {used.threads} "
                f"threads. A test process may have {LIMITS.megabytes} MB and {LIMITS.threads} "
                "threads: start fewer servers in one test, or run a program with `run_python`.",
            )
        ]

    @pytest.hookimpl(wrapper=True)
    def pytest_sessionfinish(self):
        self._config.workeroutput["usage"] = {k: tuple(v) for k, v in self.largest.items()}
        return (yield)


class Controller:
    """The plugin of pytest's own process.

    It gives all workers one server of programs, and prints the time and the largest processes.
    """

    def __init__(self):
        self._start = time.monotonic()
        self._used = {}
        self._programs = None

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node):
        if self._programs is None:
            self._programs = Server()
        node.workerinput["programs"] = self._programs.address

    def pytest_unconfigure(self):
        if self._programs is not None:
            self._programs.stop()

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node):
        self._used.update(getattr(node, "workeroutput", {}).get("usage", {}))

    def pytest_terminal_summary(self, terminalreporter):
        used = [(Usage(*of), module) for module, of in self._used.items()]
        if used:
            memory = max(used)
            threads = max(used, key=lambda pair: pair[0].threads)
            terminalreporter.write_line(
                f"Largest test processes: {memory[0].megabytes} MB ({memory[1]}), "
                f"{threads[0].threads} threads ({threads[1]})."
            )
        seconds = time.monotonic() - self._start
        terminalreporter.write_line(f"The tests took {seconds:.0f} s, with their collection.")


def pytest_configure(config):
    """Has the workers run their tests in children."""
    if hasattr(config, "workerinput"):
        config.pluginmanager.register(Worker(config), "children")
    else:
        config.pluginmanager.register(Controller(), "children")
