"""EventFile and EventFiles: event files for TensorBoard whose failures are seen.

TensorFlow's own writer loses events on a full disk without a word. This one writes the same format,
one record per event. After a failure it warns, leaves the torn file as it is, and starts another
one after a pause.
"""

import contextlib
import math
import socket
import time
from collections.abc import Iterator
from typing import Any, final

import tensorflow as tf

from replicate.estimator.files import OptionalFiles

v1 = tf.compat.v1

FLUSH_SECS = 120
"""Seconds between two flushes, and the pause after a failure."""

_VERSION = "brain.Event:2"


@final
class EventFile:
    """Writes events, with the methods of `tf.compat.v1.summary.FileWriter` that the runtime uses.

    The first event is flushed at once, later ones every `FLUSH_SECS`. A file that somebody has
    removed is replaced by a new one.

    Attributes:
      path: Path of the present file.
    """

    def __init__(self, folder: str):
        """Makes the directory and the file. If the disk refuses, a warning says so."""
        self._folder = folder
        self._pattern = f"{folder.rstrip('/')}/events.out.tfevents.*"
        self._optional = OptionalFiles()
        self._writer: Any = None
        self._flush_at = self._open_at = -math.inf
        self.path = ""
        self._open()

    def get_logdir(self) -> str:
        """Returns the directory of the file."""
        return self._folder

    def add_summary(self, summary: Any, global_step: int | None = None) -> None:
        """Adds a Summary, or its bytes."""
        if isinstance(summary, bytes):
            summary = v1.Summary.FromString(summary)
        self.add_event(v1.Event(wall_time=time.time(), step=global_step, summary=summary))

    def add_session_log(self, session_log: Any, global_step: int | None = None) -> None:
        """Adds a SessionLog, such as the mark of a session's start."""
        self.add_event(v1.Event(wall_time=time.time(), step=global_step, session_log=session_log))

    def add_event(self, event: Any) -> None:
        """Adds an event. It is lost if the file cannot be written."""
        if self._writer is None and time.monotonic() >= self._open_at:
            self._open()
        self._write(event)
        if self._writer is not None and time.monotonic() >= self._flush_at:
            self.flush()

    def flush(self) -> None:
        """Writes all added events to the disk."""
        if self._writer is None:
            return
        with self._failing():
            self._writer.flush()
        self._flush_at = time.monotonic() + FLUSH_SECS
        if self._writer is not None and not tf.io.gfile.exists(self.path):
            self._optional.warn(self._pattern, "the file was removed")
            self._close_writer()

    def close(self) -> None:
        """Flushes and closes the file. A later event starts another one."""
        self.flush()
        self._close_writer()

    def _open(self) -> None:
        """Starts a file. Its name has nanoseconds: another run may begin in the same second."""
        now = time.time_ns()
        name = f"{now // 10**9:010d}.{socket.gethostname()}.{now}"
        self.path = self._pattern.removesuffix("*") + name
        with self._failing():
            tf.io.gfile.makedirs(self._folder)
            self._writer = tf.io.TFRecordWriter(self.path)
        self._flush_at = -math.inf
        self._write(v1.Event(wall_time=now / 1e9, file_version=_VERSION))

    def _write(self, event: Any) -> None:
        if self._writer is not None:
            with self._failing():
                self._writer.write(event.SerializeToString())

    @contextlib.contextmanager
    def _failing(self) -> Iterator[None]:
        """Warns of errors inside the context, and gives up the file."""
        with self._optional.writing(self._pattern):
            try:
                yield
            except (OSError, tf.errors.OpError):
                self._close_writer()
                self._open_at = time.monotonic() + FLUSH_SECS
                raise

    def _close_writer(self) -> None:
        writer, self._writer = self._writer, None
        if writer is not None:
            with contextlib.suppress(OSError, tf.errors.OpError):
                writer.close()


@final
class EventFiles:
    """Event files of several directories, one each, which stay open."""

    def __init__(self) -> None:
        self._files: dict[str, EventFile] = {}

    def of(self, folder: str) -> EventFile:
        """Returns the file of a directory; a new one if there is none, or somebody removed it."""
        file = self._files.get(folder)
        if file is None or not tf.io.gfile.exists(file.path):
            file = self._files[folder] = EventFile(folder)
        return file
