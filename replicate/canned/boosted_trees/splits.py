"""Best splits of nodes, from sums of gradients and Hessians in the buckets of features.

A leaf with the sums G and H of its examples takes the value w that minimizes
G·w + ½ w·(H + λ₂)·w + λ₁ |w|, Chen & Guestrin (2016), "XGBoost: A scalable tree boosting system",
§2.2. A split gains what this minimum, doubled, falls by.
"""

from typing import NamedTuple

import tensorflow as tf

from replicate._types import Tensor
from replicate.canned.boosted_trees.features import FeatureGroup
from replicate.canned.boosted_trees.settings import TreeSettings

_TINY = 1e-15
"""Hessian below which a leaf has the value 0, and difference below which gains are equal."""
_RIDGE = 1e-6
"""Share of the largest second derivative that is added to a Hessian of several logits.

That of a softmax is singular: it does not change along equal logits.
"""


class Splits(NamedTuple):
    """The best split of each node of a layer.

    Attributes:
      gains: float32 [nodes]; minus infinity for a node that cannot be split.
      splits: int32 [nodes, 3]: feature, threshold, 1 for a split by equality.
      left: Value that the left child has beyond the node's, float32 [nodes, logits].
      right: The same of the right child.
    """

    gains: Tensor
    splits: Tensor
    left: Tensor
    right: Tensor


class LeafValues(NamedTuple):
    """Values of leaves, [..., logits], and their gains [...]."""

    values: Tensor
    gains: Tensor


def leaf_values(sums: Tensor, units: int, settings: TreeSettings) -> LeafValues:
    """Returns the best values of leaves.

    Args:
      sums: float32 [..., units + units²], gradients and Hessians.
      units: Number of logits.
      settings: Their penalties are used.
    """
    gradient, hessian = sums[..., :units], sums[..., units:]
    if units == 1:
        penalized = tf.sign(gradient) * tf.maximum(tf.abs(gradient) - settings.l1, 0.0)
        divisor = hessian + settings.l2
        is_flat = divisor <= _TINY
        values = tf.where(is_flat, 0.0, -penalized / tf.where(is_flat, 1.0, divisor))
        return LeafValues(values, -(penalized * values)[..., 0])
    values = _newton_step(gradient, hessian, units, settings.l2)
    return LeafValues(values, -tf.reduce_sum(gradient * values, axis=-1))


def _newton_step(gradient: Tensor, hessian: Tensor, units: int, l2: float) -> Tensor:
    """Returns -(H + λ₂)⁻¹ G for full Hessians [..., units²]."""
    shape = tf.concat([tf.shape(hessian)[:-1], [units, units]], axis=0)
    matrix = tf.cast(tf.reshape(hessian, shape), tf.float64)
    largest = tf.reduce_max(tf.abs(tf.linalg.diag_part(matrix)), axis=-1, keepdims=True)
    # An empty leaf has a Hessian of zeros, and a gradient of zeros.
    added = tf.where(largest > 0, l2 + _RIDGE * largest, 1.0)
    matrix = matrix + tf.linalg.diag(tf.repeat(added, units, axis=-1))
    right = tf.cast(gradient, tf.float64)[..., tf.newaxis]
    return -tf.cast(tf.linalg.solve(matrix, right)[..., 0], tf.float32)


def best_splits(
    statistics: list[Tensor], groups: list[FeatureGroup], units: int, settings: TreeSettings
) -> Splits:
    """Returns the best split of each node over all groups of features.

    Args:
      statistics: For each group, as `statistics.bucket_sums` computes them.
      groups: The groups.
      units: Number of logits.
      settings: Penalties, and the smallest weight of a node.
    """
    best = _best_of_group(statistics[0], groups[0], units, settings)
    for sums, group in zip(statistics[1:], groups[1:], strict=True):
        other = _best_of_group(sums, group, units, settings)
        is_equal = tf.abs(other.gains - best.gains) < _TINY
        is_first = other.splits[:, 0] < best.splits[:, 0]
        is_better = tf.where(is_equal, is_first, other.gains > best.gains)
        best = _chosen(is_better, other, best)
    return best


def _chosen(condition: Tensor, these: Splits, others: Splits) -> Splits:
    column = condition[:, tf.newaxis]
    return Splits(
        tf.where(condition, these.gains, others.gains),
        *(tf.where(column, a, b) for a, b in zip(these[1:], others[1:], strict=True)),
    )


def _best_of_group(sums: Tensor, group: FeatureGroup, units: int, settings: TreeSettings) -> Splits:
    """Returns the best splits by the features of a group; the first of equal ones."""
    left = _left_sums(sums, group)
    totals = tf.reduce_sum(sums, axis=2)
    of_first = totals[0]
    equality = tf.constant(group.equality)
    # All features see the same examples, so their totals differ by rounding only.
    whole = tf.where(equality[:, tf.newaxis, tf.newaxis], of_first, totals)
    at_left = leaf_values(left, units, settings)
    at_right = leaf_values(whole[:, :, tf.newaxis] - left, units, settings)
    gains = at_left.gains + at_right.gains
    gains = tf.where(tf.math.is_nan(gains), -float("inf"), gains)
    place = tf.argmax(gains, axis=2, output_type=tf.int32)
    feature = tf.argmax(tf.reduce_max(gains, axis=2), axis=0, output_type=tf.int32)

    def chosen(values: Tensor) -> Tensor:
        """Returns the values [nodes, ...] at the best places of [features, nodes, places, ...]."""
        of_places = tf.gather(values, place, axis=2, batch_dims=2)
        nodes = tf.range(tf.size(feature))
        return tf.gather_nd(of_places, tf.stack([feature, nodes], axis=1))

    threshold = chosen(tf.broadcast_to(tf.range(tf.shape(gains)[2]) // 2, tf.shape(gains)))
    parents = leaf_values(of_first, units, settings)
    weight = tf.norm(of_first[:, units:], axis=1)
    gain = chosen(gains) - parents.gains - settings.tree_complexity
    rows = [tf.gather(list(group.ids), feature), threshold, tf.gather(equality, feature)]
    return Splits(
        tf.where(weight < settings.min_node_weight, -float("inf"), gain),
        tf.stack([tf.cast(each, tf.int32) for each in rows], axis=1),
        chosen(at_left.values),
        chosen(at_right.values),
    )


def _left_sums(sums: Tensor, group: FeatureGroup) -> Tensor:
    """Returns the sums of the left child at each place, [features, nodes, 2 buckets, …].

    There are two places for each threshold: with the missing values, and without them. A split by
    equality leaves them to the right child.
    """
    in_buckets, missing = sums[:, :, :-1], sums[:, :, -1:]
    up_to = tf.cumsum(in_buckets, axis=2)
    ordered = tf.stack([up_to + missing, up_to], axis=3)
    equal = tf.stack([in_buckets, in_buckets], axis=3)
    equality = tf.reshape(tf.constant(group.equality), [-1, 1, 1, 1, 1])
    both = tf.where(equality, equal, ordered)
    shape = tf.shape(both)
    return tf.reshape(both, [shape[0], shape[1], 2 * shape[2], sums.shape[-1]])
