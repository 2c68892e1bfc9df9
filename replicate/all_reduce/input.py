"""Input of a worker: its share of a dataset, and batches without weight after its end."""

import tensorflow as tf

from replicate.all_reduce.group import WorkerGroup

v1 = tf.compat.v1

_GROUP = ("replicate", "worker_group")
"""Key of the collection. Not a string, so that an exported MetaGraph does not contain it."""

_SHARED = ("replicate", "input_is_shared")
"""Key of a collection that is not empty in a graph whose input_fn has called `worker_share`."""


def attach_group(group: WorkerGroup | None) -> None:
    """Hangs a group of workers on the default graph, which is made for one of them."""
    if group is not None:
        v1.add_to_collection(_GROUP, group)


def current_group() -> WorkerGroup | None:
    """Returns the workers of the default graph; None for a process that trains alone."""
    found = v1.get_collection_ref(_GROUP)
    return found[-1] if found else None


def worker_share(dataset: tf.data.Dataset) -> tf.data.Dataset:
    """Returns the part of a dataset that this worker trains on, for use in an input_fn.

    With n workers, worker i gets elements i, i + n, i + 2 n … Call it on files or on examples,
    before they are shuffled, so that no element belongs to two workers:

    ```
    def input_fn():
        examples = replicate.worker_share(tf.data.Dataset.from_tensor_slices(data))
        return examples.shuffle(10_000).batch(32)
    ```

    The dataset stays whole where no workers train or evaluate together by `AllReduce`.

    Args:
      dataset: The dataset of all workers, in the same order on each.

    Raises:
      TypeError: It is not a tf.data.Dataset.
    """
    if not isinstance(dataset, tf.data.Dataset):
        raise TypeError(f"worker_share takes a tf.data.Dataset, got {dataset!r}.")
    group = current_group()
    if group is None:
        return dataset
    v1.add_to_collection(_SHARED, dataset)
    return dataset.shard(group.size, group.rank)


def is_shared() -> bool:
    """Returns True if `worker_share` has cut a dataset of the default graph."""
    return bool(v1.get_collection_ref(_SHARED))


def evaluated_share(dataset: tf.data.Dataset, group: WorkerGroup) -> tf.data.Dataset:
    """Returns the batches that this worker evaluates: every n-th, unless input_fn has shared them.

    Args:
      dataset: The batches that input_fn has returned for this graph.
      group: The workers.
    """
    return dataset if is_shared() else dataset.shard(group.size, group.rank)


def with_batches_after_the_end(dataset: tf.data.Dataset) -> tf.data.Dataset:
    """Returns an endless dataset of (has_batch, element).

    After the end, the first element comes again and again with has_batch False: the worker takes
    part in the steps of the others, and its batch has no weight.

    Args:
      dataset: The batches of a worker.
    """
    first = dataset.take(1).cache().repeat()
    return _marked(dataset, True).concatenate(_marked(first, False))


def _marked(dataset: tf.data.Dataset, has_batch: bool) -> tf.data.Dataset:
    marks = tf.data.Dataset.from_tensors(has_batch).repeat()
    return tf.data.Dataset.zip((marks, dataset))
