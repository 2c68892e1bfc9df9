"""A batch of its own for each tower, as the strategies of tf.distribute give to their replicas.

Owns the dataset of groups, in which each element holds as many consecutive batches as there are
towers, and its format between an input pipeline and a replicated `model_fn`: dicts in place of
features and labels. Batches of a group may have different numbers of rows.
"""

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from replicate._types import Nest, Tensor
from replicate.batch.ahead import flat_tensors, nothing_like
from replicate.batch.split import Shard

_KEY = "replicate/batch_of_tower_{}"


def one_batch_each(dataset: tf.data.Dataset, towers: int) -> tf.data.Dataset:
    """Groups a dataset's batches, one for each of two or more towers.

    The n-th element holds the batches n · towers to (n + 1) · towers − 1. Batches at the end that
    are too few for all towers are left out.

    Returns:
      A dataset whose elements `shards_of_group` takes apart.

    Raises:
      ValueError: Batches are tuples, but not of features and labels.
      TypeError: A batch contains something other than numbers, booleans and text.
    """
    spec = dataset.element_spec
    labelled = isinstance(spec, tuple)
    if labelled and len(spec) != 2:
        raise ValueError(
            f"input_fn must return a dataset of features or of (features, labels) to give each of "
            f"{towers} towers a batch of its own, got one whose batches have {len(spec)} parts. "
            "Put several features into a dict."
        )
    parts = dataset.map(lambda *batch: tuple(flat_tensors(batch if labelled else batch[0])))
    if any(part.dtype in (tf.variant, tf.resource) for part in parts.element_spec):
        raise TypeError(
            f"Cannot give each of {towers} towers a batch of {spec}. Batches may hold dense, "
            "sparse and ragged tensors of numbers, booleans and text."
        )
    earlier = tuple(tuple(nothing_like(part) for part in parts.element_spec) for _ in range(towers))

    def group(last: Sequence[Any], batch: Sequence[Tensor]) -> tuple[Any, Any]:
        latest = (*last[1:], batch)
        return latest, latest

    def packed(*batches: Sequence[Tensor]) -> Nest:
        each = [tf.nest.pack_sequence_as(spec, part, expand_composites=True) for part in batches]
        if not labelled:
            return {_KEY.format(tower): batch for tower, batch in enumerate(each)}
        return tuple(
            {_KEY.format(tower): batch[part] for tower, batch in enumerate(each)}
            for part in range(2)
        )

    return parts.scan(earlier, group).skip(towers - 1).shard(towers, 0).map(packed)


def is_group(features: Nest) -> bool:
    """Returns True for the features of a group, as `model_fn` got them."""
    return isinstance(features, dict) and _KEY.format(0) in features


def shards_of_group(features: Nest, labels: Nest, towers: int) -> list[Shard]:
    """Takes apart an element, as `model_fn` got it, of a dataset that `one_batch_each` made.

    Returns:
      A shard for each tower. All have the same weight, whatever their rows.
    """
    keys = [_KEY.format(tower) for tower in range(towers)]
    return [
        Shard(features[key], None if labels is None else labels[key], 1.0 / towers) for key in keys
    ]
