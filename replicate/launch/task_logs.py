"""The log files of a job: one per task, with every line that the task printed.

The terminal shows the same lines without TensorFlow's own, which say little about a job, and of
which a cluster prints hundreds. These are log lines of C++ code below errors, notes on deprecated
names, and errors of a lost session while it closes, which the Estimator reports in one line. Other
errors, tracebacks of Python and whatever a program prints itself do not belong to them.
"""

import collections
import contextlib
import enum
import os
import re
import time
from collections.abc import Iterable, Sequence
from typing import TextIO, final

from replicate.launch.console import LAUNCHER, Display

_LAST_LINES = 3


@final
class TaskLogs:
    """Writes each line to its task's file, and shows it on another display; a context manager.

    TensorFlow's own lines are not shown. If a file cannot be written, all lines are shown, and the
    job goes on.
    """

    def __init__(self, folder: str, display: Display):
        """Keeps the settings. The folder and its files are made when a task prints.

        Args:
          folder: Folder of the files. The file of "worker 0" is `worker_0.log`. Lines are added at
            the end of a file that exists.
          display: Shows the lines and bars.
        """
        self._folder = folder
        self._display = display
        self._files: dict[str, TextIO] = {}
        self._to_close = contextlib.ExitStack()
        self._filters: dict[str, ChatterFilter] = collections.defaultdict(ChatterFilter)
        self._last_errors: dict[str, collections.deque[str]] = {}
        self._is_broken = False

    def path(self, name: str) -> str:
        """Returns the path of a task's file."""
        return os.path.join(self._folder, f"{name.replace(' ', '_')}.log")

    def line(self, name: str, text: str, is_error: bool = False) -> None:
        """Keeps a line, and shows it unless it is one of TensorFlow's own."""
        if name == LAUNCHER:
            self._display.line(name, text, is_error)
            return
        self._write(name, text)
        is_chatter = is_error and self._filters[name].is_chatter(text)
        if is_chatter and not self._is_broken:
            return
        self._display.line(name, text, is_error)
        if is_error and any(map(str.isalnum, text)):
            last = self._last_errors.setdefault(name, collections.deque(maxlen=_LAST_LINES))
            last.append(text)

    def bar(self, name: str, text: str) -> None:
        """Shows the progress bar of a task; "" removes it."""
        self._display.bar(name, text)

    def report_failures(self, names: Sequence[str]) -> None:
        """Names the files of tasks that failed, and repeats the last lines of their errors."""
        for name in names:
            last = self._last_errors.get(name, ())
            where = "" if self._is_broken else f"; {self.path(name)} has all that it printed"
            ending = ". Its last lines:" if last else ""
            self._log(f"{name} has failed{where}{ending}")
            for text in last:
                self._display.line(name, text, is_error=True)

    def __enter__(self) -> "TaskLogs":
        return self

    def __exit__(self, *exception: object) -> None:
        with contextlib.suppress(OSError):
            self._to_close.close()

    def _write(self, name: str, text: str) -> None:
        if self._is_broken:
            return
        try:
            if name not in self._files:
                os.makedirs(self._folder, exist_ok=True)
                self._files[name] = self._to_close.enter_context(
                    open(self.path(name), "a", encoding="utf-8", buffering=1)  # noqa: SIM115
                )
                self._files[name].write(f"# launched at {time.strftime('%Y-%m-%d %H:%M:%S')}\n")
            self._files[name].write(f"{text}\n")
        except OSError as error:
            self._is_broken = True
            self._log(f"the logs are not kept: {self.path(name)}: {error.strerror}")

    def _log(self, text: str) -> None:
        self._display.line(LAUNCHER, text, is_error=True)


@final
class _Message(enum.Enum):
    """The message to which the last line belongs, and how far it has come."""

    FROM_CPP = enum.auto()
    PYTHON_ERROR_IN_GRAPH = enum.auto()  # From C++, with the error of a Python function.
    ITS_TRACEBACK = enum.auto()
    AFTER_TRACEBACK = enum.auto()
    DEPRECATION = enum.auto()
    INSTRUCTIONS = enum.auto()
    ADVICE = enum.auto()
    LOST_SESSION = enum.auto()
    ITS_ERROR = enum.auto()
    AFTER_ERROR = enum.auto()


_Rules = Iterable[tuple[re.Pattern[str], _Message]]

_CPP_LOG = (
    r"(?:[IW]\d{4} [\d:.]+ +\d+ |\d{4}-\d\d-\d\d [\d:.]+: [IW] )\S+\.(?:cc|cpp|cu|h|inc)\S*:\d+\] "
)
_FIRST_LINES: _Rules = [
    (re.compile(_CPP_LOG + r".*: \w*(?:Error|Exception): "), _Message.PYTHON_ERROR_IN_GRAPH),
    (re.compile(_CPP_LOG), _Message.FROM_CPP),
    (re.compile(r"WARNING: All log messages before absl::InitializeLog\(\)"), _Message.FROM_CPP),
    # Logged as errors at each import of TensorFlow for GPUs.
    (re.compile(r".*\] Unable to register cu\w+ factory: "), _Message.FROM_CPP),
    (re.compile(r".*\] computation placer already registered"), _Message.FROM_CPP),
    (
        re.compile(
            r"(?:WARNING:tensorflow:|W\d{4} [\d:.]+ +\d+ \w+\.py:\d+\] )"
            r"From .* is deprecated(?: and will be removed |\. Please use )"
        ),
        _Message.DEPRECATION,
    ),
    (
        re.compile(
            r"(?:ERROR:tensorflow:|E\d{4} [\d:.]+ +\d+ \w+\.py:\d+\] )"
            r"An error occurred when attempting to close the session\."
        ),
        _Message.LOST_SESSION,
    ),
]
_CPP_CONTINUED = re.compile(r"\s+\[\[|\s*\[type\.googleapis\.com/|To enable the following instr")
_BAR = re.compile(r"=====+$")
_TRACEBACK = re.compile(r"Traceback \(most recent call last\):$")
_LATER_LINES: dict[_Message | None, _Rules] = {
    None: [],
    _Message.FROM_CPP: [(_CPP_CONTINUED, _Message.FROM_CPP)],
    _Message.PYTHON_ERROR_IN_GRAPH: [
        (_TRACEBACK, _Message.ITS_TRACEBACK),
        (_CPP_CONTINUED, _Message.FROM_CPP),
    ],
    _Message.ITS_TRACEBACK: [
        (re.compile(r"\s|$"), _Message.ITS_TRACEBACK),
        (re.compile(r""), _Message.AFTER_TRACEBACK),
    ],
    _Message.AFTER_TRACEBACK: [
        (re.compile(r"$"), _Message.AFTER_TRACEBACK),
        (_CPP_CONTINUED, _Message.FROM_CPP),
    ],
    _Message.DEPRECATION: [
        (re.compile(r"Instructions for updating:$"), _Message.INSTRUCTIONS),
        (re.compile(r"$"), _Message.ADVICE),
    ],
    _Message.INSTRUCTIONS: [(re.compile(r""), _Message.ADVICE)],
    _Message.ADVICE: [],
    _Message.LOST_SESSION: [
        (_BAR, _Message.ITS_ERROR),
        (
            re.compile(r"$|Additional GRPC error |:UNKNOWN:Error |:\{|\s+\[\["),
            _Message.LOST_SESSION,
        ),
    ],
    _Message.ITS_ERROR: [(_BAR, _Message.AFTER_ERROR), (re.compile(r""), _Message.ITS_ERROR)],
    _Message.AFTER_ERROR: [(re.compile(r"$"), _Message.AFTER_ERROR)],
}


@final
class ChatterFilter:
    """Tells TensorFlow's own lines in the standard error of one process apart."""

    def __init__(self) -> None:
        self._message: _Message | None = None

    def is_chatter(self, line: str) -> bool:
        """Returns True for a line of TensorFlow's own. Must be called with every line, in order.

        The first line of a message of several tells what may follow. A line that does not look like
        that is the program's: too much is shown rather than too little.
        """
        rules = [*_FIRST_LINES, *_LATER_LINES[self._message]]
        self._message = next((message for rule, message in rules if rule.match(line)), None)
        return self._message is not None
