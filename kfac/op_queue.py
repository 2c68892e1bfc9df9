"""A queue of ops for a worker that runs one at a time, such as one that only inverts factors.

Decides what comes next, and runs nothing. Called by training programs, with the inverse updates
of an optimizer.
"""

import random
import threading
import typing
from collections.abc import Sequence

import tensorflow as tf

from kfac._types import Operation

v1 = tf.compat.v1


@typing.final
class OpQueue:
    """An endless sequence of ops in which each epoch has every op once, in a new order.

    The order is drawn in Python: a call adds nothing to the graph, which may be finalized, and
    takes no run of the session. Threads may share a queue.
    """

    def __init__(self, ops: Sequence[Operation], seed: int | None = None) -> None:
        """Takes the ops.

        Args:
          ops: What to hand out, at least one.
          seed: Of the order; None draws one that differs from program to program, so that several
            workers do not all run the same op.

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
