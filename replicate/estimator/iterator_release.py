"""Release of the input of a lost session, so that the next session need not wait for it.

Each input iterator has a thread that tunes the pipeline at intervals that grow to a minute. An
iterator that is freed wakes this thread and waits for its end, but in TensorFlow up to 2.21 the
thread sometimes falls asleep again at once. If that happens in the close of a session on a server,
the server makes no other session before the interval is over. So the iterators of a lost session
are freed before its close.
"""

from typing import Any

import tensorflow as tf

v1 = tf.compat.v1


def release_iterators() -> Any:
    """Returns an operation that frees the input of all iterators of the default graph.

    Each gets an empty input of the same structure. In a session whose other servers are lost, the
    operation can still run, since it needs nothing but the devices of the iterators.
    """
    operations = v1.get_default_graph().get_operations()
    starts = [each for each in operations if each.type == "MakeIterator"]
    with v1.name_scope("replicate_release/"):
        return tf.group(*(_emptied(start) for start in starts if _has_structure(start)))


def _has_structure(start: Any) -> bool:
    return start.inputs[1].op.type in ("Iterator", "IteratorV2")


def _emptied(start: Any) -> Any:
    """Returns an operation that gives the iterator that `start` starts an empty input."""
    dataset, iterator = start.inputs
    structure = {name: iterator.op.get_attr(name) for name in ("output_types", "output_shapes")}
    with v1.device(start.device):
        none = tf.constant(0, tf.int64)
        empty = tf.raw_ops.TakeDataset(input_dataset=dataset, count=none, **structure)
        return tf.raw_ops.MakeIterator(dataset=empty, iterator=iterator)
