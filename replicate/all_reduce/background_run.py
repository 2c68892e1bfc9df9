"""BackgroundRun: a run of a session beside its other runs."""

import threading
from typing import Any, final

import tensorflow as tf

v1 = tf.compat.v1


@final
class BackgroundRun:
    """A run in a thread of its own, which ends with the run."""

    def __init__(self, session: v1.Session, fetches: Any):
        """Starts the run. `session` takes several at once, as sessions of TensorFlow do."""
        self._error: BaseException | None = None
        self._thread = threading.Thread(
            target=self._run, args=(session, fetches), name="replicate-exchange", daemon=True
        )
        self._thread.start()

    @property
    def is_done(self) -> bool:
        """True once the run has ended without an error."""
        return not self._thread.is_alive() and self._error is None

    def wait(self) -> None:
        """Waits for the end of the run, and raises its error."""
        self._thread.join()
        if self._error is not None:
            raise self._error

    def _run(self, session: v1.Session, fetches: Any) -> None:
        try:
            session.run(fetches)
        except BaseException as error:
            self._error = error
