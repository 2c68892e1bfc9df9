"""Files that a run does without: a failed write gives one warning, and the run goes on.

Event files, metric lines, graph files, traces and the run record are such files. Nothing is read
from them to continue training. Checkpoints and input positions are not: their failures are errors.
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
