"""The weighted cross entropy of sequences."""

from collections.abc import Callable

import tensorflow as tf

from replicate._types import Tensor

v1 = tf.compat.v1


def sequence_loss(
    logits: Tensor,
    targets: Tensor,
    weights: Tensor,
    average_across_timesteps: bool = True,
    average_across_batch: bool = True,
    sum_over_timesteps: bool = False,
    sum_over_batch: bool = False,
    softmax_loss_function: Callable[..., Tensor] | None = None,
    name: str | None = None,
) -> Tensor:
    """Computes the cross entropy of sequences, weighted by token.

    An average divides by the sum of the weights, a sum by the number of weights that are not 0. If
    one axis is averaged and the other summed, only the averaged one is reduced.

    Args:
      logits: [batch, time, classes].
      targets: Classes, [batch, time].
      weights: [batch, time].
      average_across_timesteps: True to average over time.
      average_across_batch: True to average over the batch.
      sum_over_timesteps: True to sum over time.
      sum_over_batch: True to sum over the batch.
      softmax_loss_function: Function of labels= [batch·time] and logits= that gives the losses.
        None for the sparse softmax cross entropy.
      name: Name of the operations.

    Returns:
      A scalar, [batch], [time] or [batch, time].

    Raises:
      ValueError: A tensor has another rank, or one axis is averaged and summed.
    """
    logits, targets, weights = map(tf.convert_to_tensor, (logits, targets, weights))
    _check_rank("logits", logits, 3)
    _check_rank("targets", targets, 2)
    _check_rank("weights", weights, 2)
    if average_across_timesteps and sum_over_timesteps:
        raise ValueError("sequence_loss cannot both average across and sum over time steps.")
    if average_across_batch and sum_over_batch:
        raise ValueError("sequence_loss cannot both average across and sum over the batch.")
    averaged = _axes(average_across_batch, average_across_timesteps)
    axes = averaged or _axes(sum_over_batch, sum_over_timesteps)
    with v1.name_scope(name, "sequence_loss", [logits, targets, weights]):
        losses = _losses(logits, targets, softmax_loss_function) * weights
        counts = weights if averaged else tf.cast(tf.not_equal(weights, 0), losses.dtype)
        if not axes:
            return losses
        return tf.math.divide_no_nan(tf.reduce_sum(losses, axes), tf.reduce_sum(counts, axes))


def _axes(batch: bool, time: bool) -> list[int]:
    return [axis for axis, counts in enumerate((batch, time)) if counts]


def _losses(logits: Tensor, targets: Tensor, function: Callable[..., Tensor] | None) -> Tensor:
    flat = tf.reshape(logits, [-1, tf.shape(logits)[2]])
    flat = tf.ensure_shape(flat, [None, logits.shape.as_list()[2]])
    function = function or tf.nn.sparse_softmax_cross_entropy_with_logits
    losses = function(labels=tf.reshape(targets, [-1]), logits=flat)
    return tf.reshape(losses, tf.shape(logits)[:2])


def _check_rank(name: str, tensor: Tensor, rank: int) -> None:
    if tensor.shape.rank != rank:
        raise ValueError(
            f"sequence_loss takes {name} of {rank} dimensions, got the shape {tensor.shape}."
        )
