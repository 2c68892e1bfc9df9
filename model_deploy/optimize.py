"""Losses and gradients of clones, summed to those of one model on all of their batches.

The loss of each clone is scaled so that the sum over clones is their mean. Regularization counts
once. `deploy`, or the caller, applies the gradients.
"""

import re
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from model_deploy._types import Gradient, Tensor, Variable
from model_deploy.arguments import check_sequence, check_type
from model_deploy.clones import Clone
from model_deploy.gradients import sum_over_copies
from model_deploy.tracebacks import shows_user_frames

v1 = tf.compat.v1


@shows_user_frames
def optimize_clones(
    clones: Sequence[Clone],
    optimizer: v1.train.Optimizer,
    regularization_losses: Sequence[Tensor] | None = None,
    **kwargs: Any,
) -> tuple[Tensor, list[tuple[Gradient, Variable]]]:
    """Computes the gradients of the mean of the clones' losses plus regularization.

    Each clone's gradients are computed on its device. Their sums are placed by the device scope of
    the call. Gradients of embeddings stay sparse.

    Args:
      clones: Clones of `create_clones`.
      optimizer: Its `compute_gradients` is called once for each clone that has a loss.
      regularization_losses: Scalars that count once, unscaled. None means the collection
        REGULARIZATION_LOSSES; an empty list means no regularization.
      **kwargs: Further arguments of `compute_gradients`, such as `var_list`.

    Returns:
      The total loss, a scalar whose operation is named `total_loss`, and one (gradient, variable)
      pair for each variable that has a gradient in at least one clone.

    Raises:
      ValueError: No clone has a loss.
      TypeError: An argument is of another type.
    """
    _check_clones(clones)
    check_optimizer("optimize clones", optimizer)
    losses = clone_losses(clones, regularization_losses)
    if not losses:
        raise ValueError(
            f"Cannot optimize {len(clones)} clones: none of them has a loss. The model function "
            f"must add its loss to the collection LOSSES, as tf.compat.v1.losses functions do; "
            f"tf.compat.v1.losses.add_loss(loss) adds one of your own."
        )
    gradients = []
    for clone, loss in losses:
        with v1.name_scope(clone.scope), v1.device(clone.device):
            gradients.append(optimizer.compute_gradients(loss, **kwargs))
    total_loss = add_losses([loss for _, loss in losses])
    return total_loss, sum_over_copies(gradients, on_variable_device=False)


def check_optimizer(doing: str, optimizer: Any) -> None:
    """Checks that an optimizer computes gradients.

    Raises:
      TypeError: It does not.
    """
    method = getattr(optimizer, "compute_gradients", None)
    is_accepted = callable(method) and not isinstance(optimizer, type)
    accepted = "an optimizer of tf.compat.v1.train, or one with its methods"
    check_type(doing, "optimizer", optimizer, is_accepted, accepted)


def _check_clones(clones: Any) -> None:
    doing, accepted = "optimize clones", "a list of the clones of model_deploy.create_clones"
    check_sequence(doing, "clones", clones, accepted)
    for clone in clones:
        is_clone = hasattr(clone, "scope") and hasattr(clone, "device")
        check_type(doing, "an entry of clones", clone, is_clone, "a model_deploy.Clone")


def clone_losses(
    clones: Sequence[Clone], regularization_losses: Sequence[Tensor] | None = None
) -> list[tuple[Clone, Tensor]]:
    """Builds the loss of each clone that has one; that of the first clone includes regularization.

    Their sum is the mean of the clones' own losses plus regularization, which is as for
    `optimize_clones`.
    """
    if regularization_losses is None:
        regularization_losses = _collected_regularization(clones)
    accepted = "a list of scalars, or None"
    check_sequence("sum losses", "regularization_losses", regularization_losses, accepted)
    regularization_losses = list(regularization_losses)
    losses = []
    for index, clone in enumerate(clones):
        with v1.name_scope(clone.scope):
            loss = _clone_loss(clone, len(clones), [] if index else regularization_losses)
        if loss is not None:
            losses.append((clone, loss))
    return losses


def add_losses(losses: Sequence[Tensor]) -> Tensor:
    """Returns the sum of the clones' losses, under the name `total_loss`."""
    return v1.add_n(list(losses), name="total_loss")


def of_clone(collection: str, clone: Clone) -> list[Any]:
    """Returns a clone's part of a collection; all of it for a clone without name scope."""
    return list(v1.get_collection(collection, re.escape(clone.scope)))


def _collected_regularization(clones: Sequence[Clone]) -> list[Tensor]:
    """Returns the collected regularization losses without those of clones after the first.

    `get_variable` adds the loss of a variable once, when it makes the variable. But a model
    function that adds losses to the collection itself does so in every clone.
    """
    repeated = tuple(clone.scope for clone in clones[1:])
    collected = v1.get_collection(v1.GraphKeys.REGULARIZATION_LOSSES)
    return [loss for loss in collected if not loss.name.startswith(repeated)]


def _clone_loss(
    clone: Clone, num_clones: int, regularization_losses: Sequence[Tensor]
) -> Tensor | None:
    """Builds one clone's part of the total loss; returns None if there is no part."""
    parts: dict[str, Tensor] = {}
    total: Tensor | None = None
    with v1.device(clone.device):
        losses = of_clone(v1.GraphKeys.LOSSES, clone)
        if losses:
            total = v1.add_n(losses, name="clone_loss")
            parts[f"Losses/{clone.scope}/clone_loss" if clone.scope else "Losses/clone_loss"] = (
                total
            )
            if num_clones > 1:
                total = tf.divide(total, num_clones, name="scaled_clone_loss")
        if regularization_losses:
            regularization = v1.add_n(regularization_losses, name="regularization_loss")
            parts["Losses/regularization_loss"] = regularization
            total = regularization if total is None else tf.add(total, regularization, name="loss")
    for tag, value in parts.items():
        v1.summary.scalar(tag, value)
    return total
