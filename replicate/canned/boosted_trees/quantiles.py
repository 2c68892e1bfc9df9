"""Quantiles: boundaries of the buckets of a number, from weighted examples of it.

The boundaries are values of the examples, the smallest and the largest included. Between two of
them lies at most a given share of the weight, unless a single value has more. The choice is that of
Greenwald & Khanna (2001), "Space-efficient online computation of quantile summaries", without the
error of a summary: all examples are looked at. tf.estimator summarized each batch with more than
1 / ε different values first, so its boundaries may differ from these by a share ε.
"""

import tensorflow as tf

from replicate._types import Tensor

_PADDING = float("inf")


def bucketed(values: Tensor, boundaries: Tensor) -> Tensor:
    """Returns the buckets of numbers, int32 [batch, features].

    Args:
      values: float32 [batch, features].
      boundaries: float32 [features, most boundaries], each row in order, with infinity at its end
        where a feature has fewer. Bucket i holds what is above boundary i - 1, up to boundary i.
        The last one also holds what is above all.
    """
    last = tf.reduce_sum(tf.cast(tf.math.is_finite(boundaries), tf.int32), axis=1) - 1
    found = tf.searchsorted(boundaries, tf.transpose(values))
    return tf.transpose(tf.minimum(found, tf.maximum(last, 0)[:, tf.newaxis]))


def no_boundaries(features: int) -> Tensor:
    """Returns boundaries as they are before there are any, [features, 1]."""
    return tf.fill([features, 1], _PADDING)


def quantile_boundaries(values: Tensor, weights: Tensor, num_quantiles: int) -> Tensor:
    """Returns boundaries of features, float32 [features, most boundaries].

    Args:
      values: float32 [examples, features].
      weights: float32 [examples]. Examples of weight 0 or less do not count.
      num_quantiles: Quantiles, about the number of boundaries if there are as many values.
    """
    counts = weights > 0
    weights = tf.boolean_mask(weights, counts)
    columns = tf.transpose(tf.boolean_mask(values, counts))
    most = max(num_quantiles, 2)

    def of_feature(column: Tensor) -> Tensor:
        found = _boundaries(column, weights, num_quantiles)
        return tf.pad(found, [[0, most - tf.size(found)]], constant_values=_PADDING)

    padded = tf.map_fn(of_feature, columns, fn_output_signature=tf.float32)
    used = tf.reduce_sum(tf.cast(tf.math.is_finite(padded), tf.int32), axis=1)
    return padded[:, : tf.maximum(tf.reduce_max(used), 1)]


def _boundaries(values: Tensor, weights: Tensor, num_quantiles: int) -> Tensor:
    """Returns the boundaries of one feature, without repetition."""
    order = tf.argsort(values, stable=True)
    distinct, index = tf.unique(tf.gather(values, order))
    size = tf.size(distinct)
    # Sorted, so equal values are neighbours.
    weight = tf.math.segment_sum(tf.gather(weights, order), index)
    wanted = max(num_quantiles, 2)
    return tf.cond(
        size <= wanted,
        lambda: distinct,
        lambda: tf.gather(distinct, _chosen(weight, wanted)),
    )


def _chosen(weight: Tensor, wanted: int) -> Tensor:
    """Returns the indices of the chosen ones of more than `wanted` values, int32.

    From one chosen value to the next, at most a share 1 / wanted of the weight is skipped. The
    steps are of size / wanted values on average, if the weight allows it.
    """
    size = tf.size(weight)
    after = tf.cumsum(weight)
    before = tf.cast(after - weight, tf.float64)
    after = tf.cast(after, tf.float64)
    share = tf.constant(1.0 / wanted, tf.float32)
    skipped = after[-1] * tf.maximum(tf.cast(share, tf.float64), 1.0 / wanted)

    def step(last: Tensor, credit: Tensor, chosen: tf.TensorArray) -> tuple[Tensor, ...]:
        heaviest = tf.searchsorted(before, [after[last] + skipped], side="right")[0]
        by_count = last + 1 + tf.maximum(-((credit - size) // wanted), 0)
        passed = tf.maximum(tf.minimum(tf.minimum(heaviest, by_count), size) - last - 1, 0)
        following = last + tf.maximum(passed, 1)
        chosen = chosen.write(chosen.size(), following)
        return following, credit + passed * wanted - size, chosen

    first = tf.TensorArray(tf.int32, size=1, dynamic_size=True).write(0, 0)
    _, _, chosen = tf.while_loop(
        lambda last, credit, chosen: last + 1 < size,
        step,
        (tf.constant(0), tf.constant(0), first),
        parallel_iterations=1,
    )
    return _fewer(chosen.stack(), before, after, wanted)


def _fewer(chosen: Tensor, before: Tensor, after: Tensor, wanted: int) -> Tensor:
    """Returns `wanted` of the chosen indices: leaves out the ones whose loss joins least weight.

    Args:
      chosen: int32, in order, the first and the last value included.
      before: Weight of the values below each value.
      after: Weight of these and the value itself.
      wanted: Number of indices to keep.
    """

    def without_one(kept: Tensor) -> tuple[Tensor]:
        joined = tf.gather(before, kept[2:]) - tf.gather(after, kept[:-2])
        least = 1 + tf.argmin(joined, output_type=tf.int32)
        return (tf.concat([kept[:least], kept[least + 1 :]], axis=0),)

    (kept,) = tf.while_loop(
        lambda kept: tf.size(kept) > wanted,
        without_one,
        (chosen,),
        shape_invariants=(tf.TensorShape([None]),),
        parallel_iterations=1,
    )
    return kept
