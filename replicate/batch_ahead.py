"""Batches that come with the one after them, so that this one can be sent ahead to the towers.

Owns the dataset of such pairs and the form that they have between an input pipeline and a
replicated `model_fn`: dicts of few entries in place of features and labels. The pairs overlap, each
batch is the later one first and then the earlier one, and the earlier one is what a step is about.
So a pipeline that is continued anywhere, as from a checkpoint, continues with the right batch,
whatever had been sent ahead of it. `staging.py` does the sending.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from replicate._types import Nest, Tensor

BATCH = "replicate/batch"
AHEAD = "replicate/batch_ahead"
IS_LAST = "replicate/batch_is_last"


class Batch(NamedTuple):
    """Features and labels.

    Attributes:
      features: Tensor or nest of Tensors, each [batch, ...].
      labels: As `features`, or None.
    """

    features: Nest
    labels: Nest


class Ahead(NamedTuple):
    """The batch after that of a step.

    Attributes:
      batch: Its features and labels; those of the step's own batch if there is none.
      exists: Whether there is one, a boolean scalar.
    """

    batch: Batch
    exists: Tensor


def prefetch_to_towers(dataset: tf.data.Dataset) -> tf.data.Dataset:
    """Makes towers train on batches that were sent to their devices during the step before.

    For the end of an `input_fn` whose `model_fn` is made by `replicate_model_fn`:
    `return dataset.apply(replicate.prefetch_to_towers)`. Steps get the same batches in the same
    order, the last one included. Evaluation and prediction may use it, and send nothing ahead.

    Args:
      dataset: Of batches: features, or (features, labels).

    Returns:
      A dataset as long, of these batches, each together with the one after it.

    Raises:
      TypeError: Batches hold something that is no numbers, booleans or text, such as a dataset.
      ValueError: Batches are tuples, but not of features and labels.
    """
    spec = dataset.element_spec
    labelled = isinstance(spec, tuple)
    if labelled and len(spec) != 2:
        raise ValueError(
            f"prefetch_to_towers takes a dataset of features or of (features, labels), got one "
            f"whose batches have {len(spec)} parts. Put several features into a dict."
        )
    parts = dataset.map(lambda *batch: tuple(_flat(batch if labelled else batch[0])))
    if any(part.dtype in (tf.variant, tf.resource) for part in parts.element_spec):
        raise TypeError(
            f"prefetch_to_towers cannot send batches of {spec} ahead. They may hold dense, sparse "
            f"and ragged tensors of numbers, booleans and text; use it outside of window()."
        )
    nothing = tuple(_nothing_like(part) for part in parts.element_spec)
    # What follows the last batch is that batch again, which no step takes.
    batches = parts.map(lambda *batch: (True, batch))
    batches = batches.concatenate(tf.data.Dataset.from_tensors((False, nothing)))

    def pair(last: Sequence[Tensor], entry: tuple[Tensor, Sequence[Tensor]]) -> tuple[Any, Any]:
        there_is_one, batch = entry
        after = tf.cond(there_is_one, lambda: batch, lambda: last)
        return after, (last, after, tf.logical_not(there_is_one))

    def packed(last: Sequence[Tensor], after: Sequence[Tensor], is_last: Tensor) -> Nest:
        batch, ahead = (
            tf.nest.pack_sequence_as(spec, part, expand_composites=True) for part in (last, after)
        )
        if not labelled:
            return {BATCH: batch, AHEAD: ahead, IS_LAST: is_last}
        features, labels = ({BATCH: batch[part], AHEAD: ahead[part]} for part in range(2))
        return {**features, IS_LAST: is_last}, labels

    return batches.scan(nothing, pair).skip(1).map(packed)


def batch_and_ahead(features: Nest, labels: Nest) -> tuple[Batch, Ahead | None]:
    """Takes apart what comes out of a dataset of `prefetch_to_towers`.

    Returns:
      The batch of the step, and the one after it: None for what comes out of other datasets.
    """
    if not isinstance(features, dict) or features.keys() != {BATCH, AHEAD, IS_LAST}:
        return Batch(features, labels), None
    labels = {BATCH: None, AHEAD: None} if labels is None else labels
    ahead = Batch(features[AHEAD], labels[AHEAD])
    return Batch(features[BATCH], labels[BATCH]), Ahead(ahead, ~features[IS_LAST])


def _flat(nest: Nest) -> list[Tensor]:
    return list(tf.nest.flatten(nest, expand_composites=True))


def _nothing_like(spec: tf.TensorSpec) -> Tensor:
    """A tensor of no rows, or one of zeros, that only stands for another."""
    shape = [] if spec.shape.rank is None else [size or 0 for size in spec.shape]
    return tf.zeros(shape, spec.dtype)
