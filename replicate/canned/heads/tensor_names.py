"""Names of tensors that programs log and fetch: those of the graphs of tf.estimator.

A name is that of an identity of the value. Below the scope of a head they are `logits`, `labels`,
`predictions/logistic`, `predictions/probabilities`, `predictions/class_ids`,
`predictions/str_classes`, `weighted_loss/Sum`, `weighted_loss/value` and `truediv`.
"""

from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from replicate._types import Nest, Tensor

v1 = tf.compat.v1
_OLD_NAMES = {"classes": "str_classes"}


def name_predictions(predictions: Mapping[str, Tensor]) -> None:
    """Names predictions by their keys, in a graph."""
    if not tf.executing_eagerly():
        for key, value in predictions.items():
            tf.identity(value, name=_OLD_NAMES.get(key, key))


def name_losses(labels: Nest, losses: Tensor, weights: Tensor, loss: Tensor) -> None:
    """Names labels and losses, in a graph.

    Args:
      labels: Labels as the losses use them.
      losses: Losses of the examples.
      weights: Weights, of a shape that is broadcast to that of the losses.
      loss: The training loss without regularization.
    """
    if tf.executing_eagerly():
        return
    name_tensor("labels", labels)
    with v1.name_scope("weighted_loss"):
        weights = tf.broadcast_to(weights, tf.shape(losses))
        total = tf.reduce_sum(losses * weights, name="Sum")
        tf.identity(loss, name="value")
    v1.realdiv(total, tf.reduce_sum(weights), name="truediv")


def name_tensor(name: str, value: Any) -> None:
    """Names one Tensor, in a graph; does nothing for dicts and sparse tensors."""
    if isinstance(value, tf.Tensor) and not tf.executing_eagerly():
        tf.identity(value, name=name)
