"""Threads that repeat ops of a session until they are told to stop.

Knows nothing of what the ops do. A cycle is one op, then several that may run at the same time;
the next cycle begins when all of them are done. Called by the asynchronous optimizer.
"""

import concurrent.futures
import threading
import typing
from collections.abc import Sequence

import tensorflow as tf

from kfac._types import Operation

v1 = tf.compat.v1


@typing.final
class BackgroundCycles:
    """One thread that runs cycles, with others that help it; made to be run once.

    Attributes:
      session: Where the ops run.
    """

    def __init__(
        self,
        session: v1.Session,
        first: Operation,
        others: Sequence[Operation],
        num_threads: int,
        coord: v1.train.Coordinator | None = None,
    ) -> None:
        """Starts no thread yet.

        Args:
          session: Where the ops run.
          first: What a cycle begins with.
          others: What follows, in any order.
          num_threads: How many of `others` may run at the same time, ≥ 1.
          coord: The threads end when it tells them to, too; it waits for them.
        """
        self.session = session
        self._first = first
        self._others = tuple(others)
        self._coord = coord
        self._pool = concurrent.futures.ThreadPoolExecutor(num_threads, "kfac_update")
        self._thread = threading.Thread(target=self._repeat, name="kfac_updates", daemon=True)
        self._stop_requested = threading.Event()
        self._error: BaseException | None = None

    def start(self) -> None:
        """Runs the first cycle, then starts the thread that repeats it.

        Raises:
          Exception: Whatever an op of the first cycle raised; then nothing was started.
        """
        try:
            self._run_cycle()
        except BaseException:
            self._pool.shutdown()
            raise
        self._thread.start()
        if self._coord is not None:
            self._coord.register_thread(self._thread)

    def check(self) -> None:
        """Raises what an op raised in the background, once."""
        error, self._error = self._error, None
        if error is not None:
            raise error

    def stop(self) -> None:
        """Lets the ops that are running end, and waits until all threads have ended."""
        self._stop_requested.set()
        self._thread.join()

    def _repeat(self) -> None:
        try:
            while not self._should_stop():
                self._run_cycle()
        except tf.errors.OutOfRangeError:
            pass  # The input has ended; so will training, which reads it too.
        except BaseException as error:
            # A session that is closed under an op makes it fail, which is no news then.
            if not self._should_stop():
                self._error = error
        finally:
            self._pool.shutdown()

    def _run_cycle(self) -> None:
        self._run(self._first)
        for done in [self._pool.submit(self._run, op) for op in self._others]:
            done.result()

    def _run(self, op: Operation) -> None:
        if not self._should_stop():
            self.session.run(op)

    def _should_stop(self) -> bool:
        asked_by_coord = self._coord is not None and self._coord.should_stop()
        return self._stop_requested.is_set() or asked_by_coord
