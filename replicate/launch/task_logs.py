"""The log files of a job: one per task, with every line that the task printed.

The terminal shows the same lines without TensorFlow's own, which `chatter.py` tells apart.
"""

import collections
import contextlib
import os
import time
from collections.abc import Sequence
from types import TracebackType
from typing import TextIO, final

from replicate.launch.chatter import ChatterFilter
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

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
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
