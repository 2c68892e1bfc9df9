"""Threads that update averages, then inverses, again and again until they are told to stop.

An update of the averages is followed by those of the inverses, several of which may run at the same
time. The next round begins when all of them are done. Called by the asynchronous refresh policy.
"""

import concurrent.futures
import threading
import typing
from collections.abc import Sequence

import tensorflow as tf

from kfac._types import Operation

v1 = tf.compat.v1


@typing.final
class BackgroundUpdates:
    """A thread that makes rounds of updates, with others that help it; can be started once.

    Attributes:
      session: Session of the updates.
    """

    def __init__(
        self,
        session: v1.Session,
        update_averages: Operation,
        update_inverses: Sequence[Operation],
        num_threads: int,
        coord: v1.train.Coordinator | None = None,
    ) -> None:
        """Starts no thread yet.

        An update of all averages begins a round; those of inverses may run in any order, and
        `num_threads` of them, ≥ 1, at the same time. The coordinator may also end the threads, and
        waits for them.
        """
        self.session = session
        self._update_averages = update_averages
        self._update_inverses = tuple(update_inverses)
        self._coord = coord
        self._pool = concurrent.futures.ThreadPoolExecutor(num_threads, "kfac_update")
        self._thread = threading.Thread(target=self._repeat, name="kfac_updates", daemon=True)
        self._stop_requested = threading.Event()
        self._error: BaseException | None = None

    def start(self) -> None:
        """Runs the first round, then starts the thread that repeats it.

        Raises:
          Exception: Whatever an update of the first round raised; then nothing was started.
        """
        try:
            self._run_round()
        except BaseException:
            self._pool.shutdown()
            raise
        self._thread.start()
        if self._coord is not None:
            self._coord.register_thread(self._thread)

    def check(self) -> None:
        """Raises the error of an update in the background, once."""
        error, self._error = self._error, None
        if error is not None:
            raise error

    def stop(self) -> None:
        """Lets the running updates end, and waits until all threads have ended."""
        self._stop_requested.set()
        self._thread.join()

    def _repeat(self) -> None:
        try:
            while not self._should_stop():
                self._run_round()
        except tf.errors.OutOfRangeError:
            pass  # The input has ended; so will training, which reads it too.
        except BaseException as error:
            # A session that is closed under an op makes it fail, which is no news then.
            if not self._should_stop():
                self._error = error
        finally:
            self._pool.shutdown()

    def _run_round(self) -> None:
        self._run(self._update_averages)
        for done in [self._pool.submit(self._run, op) for op in self._update_inverses]:
            done.result()

    def _run(self, op: Operation) -> None:
        if not self._should_stop():
            self.session.run(op)

    def _should_stop(self) -> bool:
        asked_by_coord = self._coord is not None and self._coord.should_stop()
        return self._stop_requested.is_set() or asked_by_coord
