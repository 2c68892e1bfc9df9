"""What the processes print: read from their streams as it comes, and cut into lines.

Owns the reading of many streams at once, and the rules of carriage returns: text that overwrites
itself is a progress bar, and is told from lines, also where a log line follows it without a line
break. A `Display` shows the result; `supervisor.py` says whose streams there are.
"""

import codecs
import dataclasses
import re
import selectors
import time
from types import TracebackType

from replicate.launch.console import Display
from replicate.launch.local_backend import Process, read

_LAST_SECS = 2.0
_PIECES = re.compile(r"([^\r\n]*)(\r\n|\n|\r|$)")


class LineCutter:
    """Cuts what a stream brings, in pieces of any length, into lines.

    Attributes:
      bar: The progress bar that is to be seen now; "" if there is none.
    """

    def __init__(self) -> None:
        self.bar = ""
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self._text = ""
        self._overwrites = False  # Whether the text began at a carriage return.
        self._returned = False  # Whether it ended in one, and nothing has come after it.

    def feed(self, data: bytes) -> list[str]:
        """Takes the next bytes of the stream and returns the lines that they complete."""
        text = self._decoder.decode(data)
        if not text:
            return []
        lines: list[str] = []
        if self._overwrites and self._text and not self._returned and text[0] not in "\r\n":
            self._text, self._overwrites = "", False  # A line of somebody else: the bar stays.
        for piece, end in _PIECES.findall(text):
            if piece or end == "\r":
                self._start_again_if_returned()
            self._text += piece
            if "\n" in end:
                lines.append(self._text)
                self._forget(self._overwrites)
            elif end == "\r":
                self._returned = True
        if self._overwrites:
            self.bar = self._text.rstrip()
        return lines

    def rest(self) -> list[str]:
        """Returns the last line if the stream has ended in the middle of it."""
        rest = [self._text] if self._text.strip() else []
        self._forget(is_bar=True)
        return rest

    def _start_again_if_returned(self) -> None:
        if self._returned:
            self._text, self._overwrites, self._returned = "", True, False

    def _forget(self, is_bar: bool) -> None:
        if is_bar:
            self.bar = ""
        self._text, self._overwrites, self._returned = "", False, False


@dataclasses.dataclass(eq=False)
class _Stream:
    """One stream of a process.

    Attributes:
      name: Of the task.
      process: Whose stream it is.
      is_error: Whether it is standard error.
      cutter: Cuts it.
    """

    name: str
    process: Process
    is_error: bool
    cutter: LineCutter = dataclasses.field(default_factory=LineCutter)


class Outputs:
    """The streams of all processes that run; a context manager."""

    def __init__(self, display: Display):
        """Has no streams yet.

        Args:
          display: What shows the lines.
        """
        self._display = display
        self._selector = selectors.DefaultSelector()

    def add(self, name: str, process: Process) -> None:
        """Takes in the streams of a process.

        Args:
          name: Of its task.
          process: It is running.
        """
        for is_error, stream in ((False, process.stdout), (True, process.stderr)):
            about = _Stream(name, process, is_error)
            self._selector.register(stream, selectors.EVENT_READ, about)

    def show(self, timeout: float) -> None:
        """Shows what has been printed, after waiting for it for some seconds at most."""
        for key, _ in self._selector.select(timeout):
            data = read(key.fd)
            self._show(key.data, data)
            if not data:
                self._selector.unregister(key.fd)

    def finish(self, process: Process) -> None:
        """Shows the last words of a process that has ended, and gives its streams up.

        A process that left its group may still hold them: they are not waited for for long.
        """
        deadline = time.monotonic() + _LAST_SECS
        while self._open(process) and time.monotonic() < deadline:
            self.show(0.1)
        for stream in self._open(process):
            self._selector.unregister(stream)
        process.close()

    def __enter__(self) -> "Outputs":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._selector.close()

    def _open(self, process: Process) -> list[int]:
        streams = self._selector.get_map().values()
        return [key.fd for key in streams if key.data.process is process]

    def _show(self, stream: _Stream, data: bytes) -> None:
        cutter, before = stream.cutter, stream.cutter.bar
        for line in cutter.feed(data) if data else cutter.rest():
            self._display.line(stream.name, line, stream.is_error)
        if cutter.bar != before and stream.is_error:
            self._display.bar(stream.name, cutter.bar)
