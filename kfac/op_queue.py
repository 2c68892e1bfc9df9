"""A queue of ops for a worker that runs one at a time, such as one that only inverts factors.

The queue decides what comes next, and runs nothing; the hook runs it in a monitored session. Called
by training programs, with the inverse updates of an optimizer, and by the optimizer for clusters.
"""

import random
import threading
import typing
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from kfac._types import Operation

v1 = tf.compat.v1

__all__ = ["OpQueue", "OpQueueHook"]


@typing.final
class OpQueue:
    """An endless sequence of ops in which each epoch has every op once, in a new order.

    The order is drawn in Python: a call adds nothing to the graph, which may be finalized, and
    takes no run of the session. Threads may share a queue.
    """

    def __init__(self, ops: Sequence[Operation], seed: int | None = None) -> None:
        """Takes the ops.

        Args:
          ops: Ops to hand out, at least one.
          seed: Seed of the order; None draws one that differs from program to program, so that
            several workers do not all run the same op.

        Raises:
          ValueError: There are no ops.
        """
        if not ops:
            raise ValueError(
                "Cannot make an OpQueue: ops is empty. Pass at least one op, such as the inverse "
                "updates of an optimizer whose layers have Kronecker factors."
            )
        self._ops = tuple(ops)
        self._random = random.Random(seed)  # noqa: S311
        self._epoch: list[Operation] = []
        self._lock = threading.Lock()

    @property
    def ops(self) -> tuple[Operation, ...]:
        """All ops, in the order in which they were given."""
        return self._ops

    def next_op(self, sess: v1.Session | None = None) -> Operation:
        """Returns the op to run next.

        Args:
          sess: Not needed; accepted because queues of tensorflow/kfac keep their state in it.
        """
        del sess
        with self._lock:
            if not self._epoch:
                self._epoch = self._random.sample(self._ops, len(self._ops))
            return self._epoch.pop()


class OpQueueHook(v1.train.SessionRunHook):
    """Runs the next op of a queue beside each step of a monitored session, in the same run."""

    def __init__(self, queue: OpQueue | Callable[[], OpQueue | None]) -> None:
        """Takes the queue.

        Args:
          queue: Or a function that returns it, or None, called when the graph is complete.
        """
        self._find_queue = queue if callable(queue) else lambda: queue
        self._queue: OpQueue | None = None

    def begin(self) -> None:
        """Finds the queue."""
        self._queue = self._find_queue()

    def before_run(self, run_context: Any) -> v1.train.SessionRunArgs | None:
        """Returns the op to run."""
        if self._queue is None:
            return None
        return v1.train.SessionRunArgs(self._queue.next_op(run_context.session))
