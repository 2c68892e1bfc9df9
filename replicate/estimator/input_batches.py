"""Input batches: the Tensors of one step, made from a user's input_fn.

Owns the reading of the result of an input_fn: a dataset, features, or features and labels.
`replicate.batch.split` splits batches; `checkpoints/input_position.py` counts and restores the
batches of a training run. `estimator.py` calls this module once per graph.
"""

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

import tensorflow as tf

from replicate._types import Nest, Tensor
from replicate.all_reduce.group import WorkerGroup
from replicate.all_reduce.input import (
    current_group,
    evaluated_share,
    is_shared,
    with_batches_after_the_end,
)
from replicate.all_reduce.step import WorkerStep
from replicate.all_reduce.worker_rounds import WorkerRounds
from replicate.batch.nests import flatten
from replicate.batch.one_each import one_batch_each
from replicate.errors import ArgumentTypeError
from replicate.estimator.calling import call_input_fn
from replicate.estimator.checkpoints.input_position import SCOPE, InputPosition
from replicate.estimator.run_config import RunConfig
from replicate.graph_mode import eager_captures_explained
from replicate.spec import ModeKeys

v1 = tf.compat.v1


@dataclasses.dataclass(frozen=True)
class Inputs:
    """One batch of input, and its position in the dataset.

    Attributes:
      features: Tensor or nest of Tensors, each [batch, ...].
      labels: As `features`, or None.
      position: Position in the dataset, which starts the iterator. None outside of training, for
        Tensors, in processes that save nothing, and with save_input_position=False.
      operations: Names of the operations that input_fn made; empty outside of training.
      workers: Sums over this worker and its peers, each with such an input; None for a process that
        trains alone, or meets its peers in rounds.
      rounds: Rounds of this worker and its peers, with `AllReduce(every=…)`.
    """

    features: Nest
    labels: Nest
    position: InputPosition | None
    operations: frozenset[str] = frozenset()
    workers: WorkerStep | None = None
    rounds: WorkerRounds | None = None


def build_inputs(
    input_fn: Callable[..., Any],
    mode: str,
    params: Any,
    config: RunConfig,
    batches: int | None = None,
) -> Inputs:
    """Calls input_fn on the CPU and returns the Tensors of a batch.

    Args:
      input_fn: Returns a `tf.data.Dataset`, features, or (features, labels). It may name the
        arguments mode, params and config.
      mode: One of `ModeKeys`. In PREDICT labels are dropped.
      params: Passed on.
      config: Passed on.
      batches: Number of batches that make one step, one for each tower of a strategy; None without
        a strategy.

    Raises:
      ValueError: input_fn returned nothing, or a tuple that is not (features, labels); or it used
        Tensors or datasets that were made outside of it.
      TypeError: It returned an iterator, or a Tensor or dataset that was made outside of it.
    """
    is_training = mode == ModeKeys.TRAIN
    earlier = _operations() if is_training else frozenset()
    with v1.device("/cpu:0"):
        with eager_captures_explained("input_fn", "Tensors or a dataset"):
            returned = call_input_fn(input_fn, mode, params, config, batches)
        _check_dataset(returned)
        if batches is not None and batches > 1:
            returned = one_batch_each(_dataset(returned, batches), batches)
        position = has_batch = None
        group = current_group()
        if group is not None and not is_training:
            returned, group = _evaluated_share(returned, group), None
        counts = config.is_chief or group is not None
        is_counted = is_training and config.save_input_position and counts
        has_rounds = group is not None and group.settings.every is not None
        is_marked = group is not None and not has_rounds and isinstance(returned, tf.data.Dataset)
        if is_marked:
            returned = with_batches_after_the_end(returned)
        with v1.name_scope(SCOPE):
            if isinstance(returned, tf.data.Dataset) and is_counted:
                position = InputPosition(returned, is_shared=is_shared())
                returned = position.next
            elif isinstance(returned, tf.data.Dataset):
                iterator = v1.data.make_initializable_iterator(returned)
                v1.add_to_collection(v1.GraphKeys.TABLE_INITIALIZERS, iterator.initializer)
                returned = iterator.get_next()
        if is_marked:
            has_batch, returned = returned
    features, labels = _features_and_labels(returned, mode)
    _check_leaves(features, labels)
    workers = rounds = None
    if group is not None:
        rows = None if batches is not None and batches > 1 else batch_size(features)
        with v1.device("/cpu:0"):
            if has_rounds:
                rounds = WorkerRounds(group, rows)
                features, labels = rounds.counted((features, labels))
            else:
                workers = WorkerStep(group, rows, has_batch)
                features, labels = workers.after_check_of_end((features, labels))
    operations = _operations() - earlier if is_training else earlier
    return Inputs(features, labels, position, operations, workers, rounds)


def batch_size(features: Nest) -> int | Tensor | None:
    """Returns the number of rows of a batch: an int if known now, else a Tensor.

    The result is None if the number is not known, for example for a sparse first feature.
    """
    first = next(iter(flatten(features)), None)
    if not isinstance(first, tf.Tensor) or first.shape.rank in (None, 0):
        return None
    known = first.shape.as_list()[0]
    return tf.shape(first, out_type=tf.int64)[0] if known is None else int(known)


def _operations() -> frozenset[str]:
    """Returns the names of the operations of the default graph."""
    return frozenset(operation.name for operation in v1.get_default_graph().get_operations())


def _features_and_labels(returned: Any, mode: str) -> tuple[Nest, Nest]:
    if returned is None:
        raise ValueError(
            f"input_fn returned None in mode {mode!r}. Return a tf.data.Dataset, features, or "
            "(features, labels)."
        )
    if not isinstance(returned, (tuple, list)):
        return returned, None
    if mode == ModeKeys.PREDICT and returned:
        return returned[0], None
    if len(returned) != 2:
        raise ValueError(
            f"input_fn must give (features, labels) in mode {mode!r}, got {len(returned)} parts. "
            "Put several features into a dict, (dict, labels)."
        )
    return returned[0], returned[1]


def _dataset(returned: Any, batches: int) -> tf.data.Dataset:
    """Returns what input_fn returned, if several batches of it can make one step."""
    if not isinstance(returned, tf.data.Dataset):
        raise ArgumentTypeError(
            f"input_fn must return a tf.data.Dataset to give each of {batches} towers a batch of "
            f"its own, as a strategy of tf.distribute does; got {returned!r}."
        )
    return returned


def _evaluated_share(returned: Any, group: WorkerGroup) -> tf.data.Dataset:
    """Returns the batches that this worker evaluates of what input_fn returned."""
    if not isinstance(returned, tf.data.Dataset):
        raise ArgumentTypeError(
            f"input_fn must return a tf.data.Dataset to be evaluated by {group.size} workers with "
            f"AllReduce(evaluates=True), each its share; got {returned!r}."
        )
    return evaluated_share(returned, group)


def _check_dataset(returned: Any) -> None:
    """Raises TypeError for a dataset that was made outside of input_fn, eagerly."""
    if not isinstance(returned, tf.data.Dataset):
        return
    with eager_captures_explained("input_fn", "a dataset"):
        if not hasattr(tf.data.experimental.to_variant(returned), "graph"):
            raise TypeError(
                f"input_fn returned the dataset {returned!r}, which was made outside of it, where "
                "TensorFlow executes eagerly, but input_fn runs in graph mode, in a new graph: "
                "make the dataset inside of input_fn."
            )


def _check_leaves(*nests: Nest) -> None:
    """Raises TypeError for iterators and for Tensors that were made outside of input_fn."""
    for leaf in flatten(nests):
        if isinstance(leaf, Iterator):
            raise TypeError(
                f"input_fn must return a tf.data.Dataset, features, or (features, labels), got the "
                f"iterator {leaf!r}. Make a dataset of it with tf.data.Dataset.from_generator."
            )
        if isinstance(leaf, tf.Tensor) and not hasattr(leaf, "graph"):
            raise TypeError(
                f"input_fn returned a Tensor of shape {leaf.shape} that was made outside of it, "
                "where TensorFlow executes eagerly, but input_fn runs in graph mode: make it "
                "inside of input_fn, or return an array."
            )
