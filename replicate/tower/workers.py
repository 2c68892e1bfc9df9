"""Workers: the processes over which a training step adds up more than its towers.

A graph whose training has several equal workers has one object that sums over them. The runtime
attaches it before the model is built; the stages of an update, batch normalization's statistics and
the merged loss ask for it here. Without parameter servers it is a
`replicate.all_reduce.step.WorkerStep`.
"""

import contextlib
from collections.abc import Iterator

import tensorflow as tf

from replicate.protocols import WORKERS, Workers

v1 = tf.compat.v1


def current_workers() -> Workers | None:
    """Returns the workers of the default graph; None if each step is that of one process."""
    found = v1.get_collection_ref(WORKERS)
    return found[-1] if found else None


@contextlib.contextmanager
def attached_workers(workers: Workers | None) -> Iterator[None]:
    """Attaches workers to the default graph inside the context."""
    if workers is None:
        yield
        return
    entries = v1.get_collection_ref(WORKERS)
    entries.append(workers)
    try:
        yield
    finally:
        entries.remove(workers)
