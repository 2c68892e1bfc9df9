"""Statistics of a batch: derivatives of the loss by the logits, summed by buckets of features."""

import tensorflow as tf

from replicate._types import Tensor
from replicate.canned.boosted_trees.features import FeatureGroup, group_buckets

v1 = tf.compat.v1


def derivatives(loss: Tensor, logits: Tensor, units: int) -> Tensor:
    """Returns first and second derivatives of a loss, float32 [batch, units + units²].

    Args:
      loss: Scalar.
      logits: float32 [batch, units], of which the loss of each example uses its own row.
      units: Number of logits.

    Raises:
      ValueError: The loss does not depend on the logits, or has no second derivative.
    """
    gradient = _derivative(loss, logits, "derivative")
    rows = tf.unstack(gradient, num=units, axis=1)
    hessian = [_derivative(row, logits, "second derivative") for row in rows]
    return tf.concat([gradient, *hessian], axis=1)


def _derivative(values: Tensor, logits: Tensor, kind: str) -> Tensor:
    (found,) = v1.gradients(values, [logits])
    if found is None:
        raise ValueError(
            f"Cannot grow trees: the loss of the head has no {kind} by the logits, and a split "
            "needs first and second derivatives. Use a head whose loss is smooth."
        )
    return tf.convert_to_tensor(found)


def bucket_sums(
    examples: Tensor, nodes: Tensor, count: Tensor, buckets: Tensor, group: FeatureGroup
) -> Tensor:
    """Returns sums of examples by feature, node and bucket.

    Args:
      examples: float32 [batch, statistics].
      nodes: Index of each example's node, int32 [batch]; an example of a negative one is left out.
      count: Number of nodes, int32 scalar.
      buckets: All features, int32 [batch, features].
      group: The features to use.

    Returns:
      float32 [features of the group, count, buckets + 1, statistics]; the last bucket is that of
      missing values.
    """
    width = group.buckets + 1
    inside = tf.range(len(group.ids)) * count + nodes[:, tf.newaxis]
    places = inside * width + group_buckets(buckets, group)
    places = tf.where(nodes[:, tf.newaxis] < 0, -1, places)
    size = examples.shape[-1]
    repeated = tf.repeat(examples, len(group.ids), axis=0)
    sums = tf.math.unsorted_segment_sum(
        repeated, tf.reshape(places, [-1]), len(group.ids) * count * width
    )
    return tf.reshape(sums, [len(group.ids), count, width, size])
