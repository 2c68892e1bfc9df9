"""EventsWriter: a file of TensorBoard's events, written record by record."""

import os
import socket
import time
from typing import Any

import tensorflow as tf

v1 = tf.compat.v1
_VERSION = "brain.Event:2"


class EventsWriter:
    """Writes `tf.Event`s into one file, PREFIX.out.tfevents.SECONDS.HOST.

    The file is made with the first event, and begins with the version of its format.
    """

    def __init__(self, file_prefix: str | bytes) -> None:
        """Stores the prefix, a path without the end of the file's name."""
        self._prefix = os.fsdecode(file_prefix)
        self._suffix = ""
        self._path = ""
        self._writer: Any = None

    def InitWithSuffix(self, suffix: str | bytes) -> None:  # noqa: N802  # The old name, as below.
        """Sets the end of the file's name."""
        self._suffix = os.fsdecode(suffix)

    def FileName(self) -> bytes:  # noqa: N802
        """Returns the file's path, and makes the file."""
        self._open()
        return os.fsencode(self._path)

    def WriteEvent(self, event: Any) -> None:  # noqa: N802
        """Writes a `tf.Event`."""
        self._open().write(event.SerializeToString())

    def Flush(self) -> bool:  # noqa: N802
        """Writes what is buffered, and returns True."""
        if self._writer is not None:
            self._writer.flush()
        return True

    def Close(self) -> bool:  # noqa: N802
        """Closes the file, and returns True. The next event makes another file."""
        if self._writer is not None:
            self._writer.close()
            self._writer = None
        return True

    def _open(self) -> Any:
        if self._writer is None:
            now = time.time()
            self._path = (
                f"{self._prefix}.out.tfevents.{int(now):010}.{socket.gethostname()}{self._suffix}"
            )
            self._writer = tf.io.TFRecordWriter(self._path)
            self._writer.write(v1.Event(wall_time=now, file_version=_VERSION).SerializeToString())
        return self._writer
