"""A queue of ops for a worker that runs one at a time; defined in `kfac.scheduling`."""

from kfac.scheduling.op_queue import (
    OpQueue,
    OpQueueHook,
)

__all__ = [
    "OpQueue",
    "OpQueueHook",
]
