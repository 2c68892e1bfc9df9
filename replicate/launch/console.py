"""The console: the output of all processes, on one terminal or in one file.

Each line gets the name of its task as a prefix, in colour on a terminal. One progress bar stays
below all lines. `output_streams.py` delivers the output, already split into lines.
"""

import os
import shutil
from collections.abc import Callable, Sequence
from typing import Protocol, TextIO

from replicate.closed_pipe import drop

LAUNCHER = "launch"
"""Name before the launcher's own lines."""

_COLOURS = {LAUNCHER: "1", "chief": "32", "worker": "36", "ps": "33", "evaluator": "35"}
_START_OF_CLEAR_LINE = "\r\x1b[K"


class Display(Protocol):
    """Shows the output of the processes."""

    def line(self, name: str, text: str, is_error: bool = False) -> None:
        """Shows a line.

        Args:
          name: Name of the task that printed the line, or `LAUNCHER`.
          text: The line, without the line break.
          is_error: True if the line came from standard error.
        """

    def bar(self, name: str, text: str) -> None:
        """Shows the progress bar of a task; "" removes it."""


class Console:
    """Shows lines on two text streams, each with the name of its task before it.

    A stream that takes no more, as a closed pipe or terminal, is written no more.
    """

    def __init__(
        self,
        names: Sequence[str],
        stdout: TextIO,
        stderr: TextIO,
        on_closed_pipe: Callable[[], None] | None = None,
    ):
        """Keeps the streams.

        Args:
          names: Names of all tasks; the longest gives the width of the first column.
          stdout: Stream for lines of standard output.
          stderr: Stream for lines of standard error, and for the bar if this is a terminal.
          on_closed_pipe: Called when nobody reads a pipe any more; None raises BrokenPipeError.
        """
        self._width = max(map(len, [LAUNCHER, *names]))
        self._stdout = stdout
        self._stderr = stderr
        self._on_closed_pipe = on_closed_pipe
        self._bar = ""

    @property
    def bar_columns(self) -> int:
        """Width of the progress bar in characters; 0 if none is shown."""
        columns = shutil.get_terminal_size().columns - self._width - len(" | ") - 1
        return max(columns, 1) if self._stderr.isatty() else 0

    def line(self, name: str, text: str, is_error: bool = False) -> None:
        """Shows a line, above the bar."""
        stream = self._stderr if is_error else self._stdout
        clear = _START_OF_CLEAR_LINE if self._bar and stream.isatty() else ""
        self._write(stream, f"{clear}{self._prefix(name, stream)}{text}\n")
        if clear:
            self._draw()

    def bar(self, name: str, text: str) -> None:
        """Shows the bar on the last line of the terminal; "" removes it."""
        room = self.bar_columns
        if room:
            self._bar = self._prefix(name, self._stderr) + text[:room] if text else ""
            self._draw()

    def _draw(self) -> None:
        self._write(self._stderr, _START_OF_CLEAR_LINE + self._bar)

    def _write(self, stream: TextIO, text: str) -> None:
        try:
            stream.write(text)
            stream.flush()
        except OSError as error:
            drop(stream)
            if isinstance(error, BrokenPipeError):
                if self._on_closed_pipe is None:
                    raise
                self._on_closed_pipe()

    def _prefix(self, name: str, stream: TextIO) -> str:
        column = f"{name:<{self._width}} |"
        if stream.isatty() and not os.environ.get("NO_COLOR"):
            column = f"\x1b[{_COLOURS[name.partition(' ')[0]]}m{column}\x1b[0m"
        return f"{column} "
