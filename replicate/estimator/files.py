"""Files of a model directory: written whole, or left out with a warning.

Readers see the old content of a file or the new, never a part. A run does without optional files:
if one cannot be written, there is one warning, and the run goes on. Event files, metric lines,
graph files, traces and the run record are such files. Nothing is read from them to continue
training. Checkpoints and input positions are not: their failures are errors.
"""

import contextlib
from collections.abc import Iterator
from typing import final

import tensorflow as tf

from replicate.estimator.log import log
from replicate.saved.disk_errors import disk_reason


@final
class OptionalFiles:
    """Turns failures to write into warnings, one for each file."""

    def __init__(self) -> None:
        self._failed: set[str] = set()

    @contextlib.contextmanager
    def writing(self, path: str) -> Iterator[None]:
        """Catches the errors of the file system inside the context."""
        try:
            yield
        except (OSError, tf.errors.OpError) as error:
            self.warn(path, disk_reason(error) or str(error).splitlines()[0])

    def warn(self, path: str, reason: str) -> None:
        """Logs that a file is not written, unless that was said before."""
        if path not in self._failed:
            self._failed.add(path)
            log.warning("%s cannot be written: %s. The run goes on without it.", path, reason)


def write_whole(path: str, content: str | bytes, unfinished: str) -> None:
    """Writes a file as `unfinished` in its directory, then moves it to its place.

    The unfinished file is left behind if the process dies.

    Raises:
      tf.errors.OpError: It cannot be written or moved.
    """
    with tf.io.gfile.GFile(unfinished, "wb" if isinstance(content, bytes) else "w") as file:
        file.write(content)
    tf.io.gfile.rename(unfinished, path, overwrite=True)
