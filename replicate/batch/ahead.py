"""Pairs of consecutive batches, so that the next batch can be sent to the towers early.

Owns the dataset of pairs and their format between an input pipeline and a replicated `model_fn`:
dicts in place of features and labels. Pairs overlap: each batch is the second of one pair and the
first of the next. A step trains on the first batch of a pair. So a pipeline restored from a
checkpoint continues with the right batch. `staging.py` sends the second batch to the towers.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from replicate._types import Nest, Tensor

BATCH = "replicate/batch"
AHEAD = "replicate/batch_ahead"
IS_LAST = "replicate/batch_is_last"


class Batch(NamedTuple):
    """Features and labels: nests of Tensors [batch, ...]. Labels may be None."""

    features: Nest
    labels: Nest


class Ahead(NamedTuple):
    """The batch of the next step.

    Attributes:
      batch: Features and labels; those of this step if there is no next batch.
      exists: True if there is a next batch, a boolean scalar.
    """

    batch: Batch
    exists: Tensor


def prefetch_to_towers(dataset: tf.data.Dataset) -> tf.data.Dataset:
    """Sends each batch to the towers' devices during the step before it.

    Use it at the end of an `input_fn` whose `model_fn` is made by `replicate_model_fn`:
    `return dataset.apply(replicate.prefetch_to_towers)`. Steps get the same batches in the same
    order, including the last. Evaluation and prediction accept the dataset and send nothing early.

    Args:
      dataset: Dataset of batches: features, or (features, labels).

    Returns:
      A dataset of the same length, which holds each batch together with the next one.

    Raises:
      TypeError: A batch contains something other than numbers, booleans and text, such as a
        dataset.
      ValueError: Batches are tuples, but not of features and labels.
    """
    spec = dataset.element_spec
    labelled = isinstance(spec, tuple)
    if labelled and len(spec) != 2:
        raise ValueError(
            f"prefetch_to_towers takes a dataset of features or of (features, labels), got one "
            f"whose batches have {len(spec)} parts. Put several features into a dict."
        )
    parts = dataset.map(lambda *batch: tuple(flat_tensors(batch if labelled else batch[0])))
    if any(part.dtype in (tf.variant, tf.resource) for part in parts.element_spec):
        raise TypeError(
            f"prefetch_to_towers cannot send batches of {spec} ahead. They may hold dense, sparse "
            f"and ragged tensors of numbers, booleans and text; use it outside of window()."
        )
    nothing = tuple(nothing_like(part) for part in parts.element_spec)
    # The last batch is paired with itself. No step takes the second copy.
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
    """Takes apart an element, as `model_fn` got it, of a dataset made by `prefetch_to_towers`.

    Returns:
      The batch of the step and the next batch. For other datasets, (features, labels) and None.
    """
    if not isinstance(features, dict) or features.keys() != {BATCH, AHEAD, IS_LAST}:
        return Batch(features, labels), None
    labels = {BATCH: None, AHEAD: None} if labels is None else labels
    ahead = Batch(features[AHEAD], labels[AHEAD])
    return Batch(features[BATCH], labels[BATCH]), Ahead(ahead, ~features[IS_LAST])


def flat_tensors(nest: Nest) -> list[Tensor]:
    """Returns the tensors of a nest, also those of sparse and ragged ones."""
    return list(tf.nest.flatten(nest, expand_composites=True))


def nothing_like(spec: tf.TensorSpec) -> Tensor:
    """Returns a placeholder value for a tensor: zeros, with 0 for each unknown dimension."""
    shape = [] if spec.shape.rank is None else [size or 0 for size in spec.shape]
    return tf.zeros(shape, spec.dtype)
