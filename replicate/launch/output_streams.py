"""The output of the processes: read from all their streams at once, and split into lines.

Text that overwrites itself after a carriage return is a progress bar. It is told apart from lines
even where a log line follows it without a line break. A `Display` shows both. `supervisor.py` adds
the streams of each process that it starts.
"""

import codecs
import dataclasses
import os
import re
import selectors
import time
from typing import final

from replicate.launch.backend import ProcessHandle
from replicate.launch.console import Display

_MAX_WAIT_SECS = 2.0
_CHUNK_BYTES = 1 << 16
_PIECES = re.compile(r"([^\r\n]*)(\r\n|\n|\r|$)")


@final
class LineSplitter:
    """Splits the bytes of a stream, which come in pieces of any length, into lines.

    Attributes:
      bar: The progress bar to show now; "" if there is none.
    """

    def __init__(self) -> None:
        self.bar = ""
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self._text = ""
        self._began_at_return = False  # True if a carriage return stands before the text.
        self._ended_in_return = False  # True if a carriage return came last.

    def feed(self, data: bytes) -> list[str]:
        """Takes the next bytes of the stream and returns the lines that they complete."""
        text = self._decoder.decode(data)
        if not text:
            return []
        lines: list[str] = []
        if self._is_bar_text() and text[0] not in "\r\n":
            self._text, self._began_at_return = "", False  # A log line follows; the bar stays.
        for piece, end in _PIECES.findall(text):
            if piece or end == "\r":
                self._start_over_after_return()
            self._text += piece
            if "\n" in end:
                lines.append(self._text)
                self._reset(self._began_at_return)
            elif end == "\r":
                self._ended_in_return = True
        if self._began_at_return:
            self.bar = self._text.rstrip()
        return lines

    def rest(self) -> list[str]:
        """Returns the last line if the stream has ended in the middle of it."""
        rest = [self._text] if self._text.strip() else []
        self._reset(is_bar=True)
        return rest

    def _is_bar_text(self) -> bool:
        return self._began_at_return and bool(self._text) and not self._ended_in_return

    def _start_over_after_return(self) -> None:
        if self._ended_in_return:
            self._text, self._began_at_return, self._ended_in_return = "", True, False

    def _reset(self, is_bar: bool) -> None:
        if is_bar:
            self.bar = ""
        self._text, self._began_at_return, self._ended_in_return = "", False, False


@dataclasses.dataclass(eq=False)
class _Stream:
    """One stream of a task's process, split into lines."""

    name: str
    process: ProcessHandle
    is_error: bool
    splitter: LineSplitter = dataclasses.field(default_factory=LineSplitter)


@final
class OutputStreams:
    """The streams of all running processes; a context manager."""

    def __init__(self, display: Display):
        self._display = display
        self._selector = selectors.DefaultSelector()

    def add(self, name: str, process: ProcessHandle) -> None:
        """Adds both streams of a process."""
        for is_error, stream in ((False, process.stdout), (True, process.stderr)):
            about = _Stream(name, process, is_error)
            self._selector.register(stream, selectors.EVENT_READ, about)

    def show(self, timeout: float) -> None:
        """Shows new output, for which it waits `timeout` seconds at most."""
        for key, _ in self._selector.select(timeout):
            data = read_stream(key.fd)
            self._show(key.data, data)
            if not data:
                self._selector.unregister(key.fd)

    def finish(self, process: ProcessHandle) -> None:
        """Shows the remaining output of a process that has ended, and closes its streams.

        A child that left the process group may hold the streams open. So this waits for their end
        for two seconds at most.
        """
        deadline = time.monotonic() + _MAX_WAIT_SECS
        while self._open_streams(process) and time.monotonic() < deadline:
            self.show(0.1)
        for stream in self._open_streams(process):
            self._selector.unregister(stream)
        process.close()

    def __enter__(self) -> "OutputStreams":
        return self

    def __exit__(self, *exception: object) -> None:
        self._selector.close()

    def _open_streams(self, process: ProcessHandle) -> list[int]:
        streams = self._selector.get_map().values()
        return [key.fd for key in streams if key.data.process is process]

    def _show(self, stream: _Stream, data: bytes) -> None:
        splitter, bar_before = stream.splitter, stream.splitter.bar
        for line in splitter.feed(data) if data else splitter.rest():
            self._display.line(stream.name, line, stream.is_error)
        if splitter.bar != bar_before and stream.is_error:
            self._display.bar(stream.name, splitter.bar)


def read_stream(stream: int) -> bytes:
    """Returns the next bytes from a file descriptor, or b"" at its end."""
    try:
        return os.read(stream, _CHUNK_BYTES)
    except OSError:  # Linux reports the end of a terminal as an error.
        return b""
