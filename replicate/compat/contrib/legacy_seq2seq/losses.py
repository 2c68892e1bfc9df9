"""The weighted cross entropy of lists of logits."""

from collections.abc import Callable, Sequence

import tensorflow as tf

from replicate._types import Tensor

v1 = tf.compat.v1
_SMALL = 1e-12


def sequence_loss_by_example(
    logits: Sequence[Tensor],
    targets: Sequence[Tensor],
    weights: Sequence[Tensor],
    average_across_timesteps: bool = True,
    softmax_loss_function: Callable[..., Tensor] | None = None,
    name: str | None = None,
) -> Tensor:
    """Computes the cross entropy of each sequence, [batch].

    Args:
      logits: For each time, [batch, classes].
      targets: Classes for each time, [batch].
      weights: For each time, [batch].
      average_across_timesteps: True to divide by the sum of the sequence's weights.
      softmax_loss_function: Function of labels= and logits= that gives the losses [batch]. None for
        the sparse softmax cross entropy.
      name: Name of the operations.

    Raises:
      ValueError: The lists have different lengths.
    """
    if not len(logits) == len(targets) == len(weights):
        raise ValueError(
            f"The lists of logits, targets and weights must have one length, got {len(logits)}, "
            f"{len(targets)} and {len(weights)}."
        )
    with v1.name_scope(name, "sequence_loss_by_example", [*logits, *targets, *weights]):
        losses = [
            _loss(logit, target, softmax_loss_function) * weight
            for logit, target, weight in zip(logits, targets, weights, strict=True)
        ]
        total = tf.add_n(losses)
        return total / (tf.add_n(weights) + _SMALL) if average_across_timesteps else total


def sequence_loss(
    logits: Sequence[Tensor],
    targets: Sequence[Tensor],
    weights: Sequence[Tensor],
    average_across_timesteps: bool = True,
    average_across_batch: bool = True,
    softmax_loss_function: Callable[..., Tensor] | None = None,
    name: str | None = None,
) -> Tensor:
    """Computes the cross entropy of a batch, a scalar.

    The arguments are those of `sequence_loss_by_example`. `average_across_batch` is True for the
    mean over the batch, False for the sum.

    Raises:
      ValueError: The lists have different lengths.
    """
    with v1.name_scope(name, "sequence_loss", [*logits, *targets, *weights]):
        losses = sequence_loss_by_example(
            logits, targets, weights, average_across_timesteps, softmax_loss_function
        )
        total = tf.reduce_sum(losses)
        batch = tf.cast(tf.shape(targets[0])[0], total.dtype)
        return total / batch if average_across_batch else total


def _loss(logits: Tensor, target: Tensor, function: Callable[..., Tensor] | None) -> Tensor:
    if function is not None:
        return function(labels=target, logits=logits)
    target = tf.reshape(target, [-1])
    return tf.nn.sparse_softmax_cross_entropy_with_logits(labels=target, logits=logits)
