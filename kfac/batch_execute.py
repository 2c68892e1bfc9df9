"""Spreads work over steps: of several ops, so many in each step, in turn.

For programs that chain updates by hand; `PeriodicInvCovUpdateKfacOpt(spread_inverses=True)` spreads
its inverses by itself.
"""

from collections.abc import Callable, Sequence

import tensorflow as tf

from kfac._types import Operation, Tensor, Variable
from kfac.state import run_if

v1 = tf.compat.v1

__all__ = ["batch_execute"]


def batch_execute(
    global_step: Tensor | Variable,
    thunks: Sequence[Callable[[], Operation]],
    batch_size: int,
    name: str | None = None,
) -> list[Operation]:
    """Returns an op per thunk; in each step exactly `batch_size` of them do something.

    In step s these are the thunks (s·b + k) mod n for k = 0, …, b − 1. With three thunks, two per
    step: 0 and 1, then 2 and 0, then 1 and 2, then 0 and 1 again.

    The ops of a thunk are made in a conditional branch. There they can assign resource variables,
    but reference variables only where control flow is that of TensorFlow 1.

    Args:
      global_step: int [], one more in each step.
      thunks: Functions that make one op each, such as an optimizer's updates of inverses.
      batch_size: b, how many to run in each step, from 1 to their number.
      name: Name scope of the ops.

    Raises:
      ValueError: The batch size is out of its range.
    """
    count = len(thunks)
    if not 1 <= batch_size <= count:
        raise ValueError(
            f"Cannot spread {count} ops over steps: batch_size={batch_size!r}. It must be from 1 "
            "to the number of ops."
        )
    with v1.name_scope(name, "batch_execute"):
        step = tf.cast(tf.convert_to_tensor(global_step), tf.int64)
        first = step * batch_size % count
        return [
            run_if((index - first) % count < batch_size, thunk)
            for index, thunk in enumerate(thunks)
        ]
