"""tf.contrib.nn: cross entropies whose arguments stand in the order of TensorFlow 0."""

import tensorflow as tf

from replicate._types import Tensor

__all__ = [
    "deprecated_flipped_sigmoid_cross_entropy_with_logits",
    "deprecated_flipped_softmax_cross_entropy_with_logits",
    "deprecated_flipped_sparse_softmax_cross_entropy_with_logits",
]


def deprecated_flipped_softmax_cross_entropy_with_logits(
    logits: Tensor, labels: Tensor, dim: int = -1, name: str | None = None
) -> Tensor:
    """Computes `tf.nn.softmax_cross_entropy_with_logits`, without gradients of the labels."""
    return tf.nn.softmax_cross_entropy_with_logits(
        labels=tf.stop_gradient(labels), logits=logits, axis=dim, name=name
    )


def deprecated_flipped_sparse_softmax_cross_entropy_with_logits(
    logits: Tensor, labels: Tensor, name: str | None = None
) -> Tensor:
    """Computes `tf.nn.sparse_softmax_cross_entropy_with_logits`, [batch].

    Returns:
      Losses, [batch].
    """
    return tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits, name=name)


def deprecated_flipped_sigmoid_cross_entropy_with_logits(
    logits: Tensor, targets: Tensor, name: str | None = None
) -> Tensor:
    """Computes `tf.nn.sigmoid_cross_entropy_with_logits`, of any shape.

    Returns:
      Losses of the same shape.
    """
    return tf.nn.sigmoid_cross_entropy_with_logits(labels=targets, logits=logits, name=name)
