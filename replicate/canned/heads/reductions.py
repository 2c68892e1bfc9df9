"""Reduction of the examples' losses to a training loss, and loss functions of users."""

import inspect
import types
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import tensorflow as tf

from replicate._types import Tensor
from replicate.calling import named_arguments
from replicate.canned.heads.checks import checked, same_shape
from replicate.tower.build import current_build

v1 = tf.compat.v1
Reduction = v1.losses.Reduction

SUM_OVER_BATCH_SIZE = "sum_over_batch_size"
"""Default reduction of all heads: Σ w·l / number of losses."""

_OLD_NAMES: Mapping[str, str] = types.MappingProxyType(
    {
        "sum": Reduction.SUM,
        "sum_over_batch_size": Reduction.SUM_OVER_BATCH_SIZE,
        "auto": Reduction.SUM_OVER_BATCH_SIZE,
        **{
            name: name
            for name in (
                Reduction.SUM,
                Reduction.SUM_OVER_BATCH_SIZE,
                Reduction.MEAN,
                Reduction.SUM_BY_NONZERO_WEIGHTS,
            )
        },
    }
)
"""Reduction of either generation → the same one in `tf.compat.v1.losses.Reduction`."""


def old_reduction(loss_reduction: str) -> str:
    """Returns the v1 reduction that a head's reduction, of `tf.losses.Reduction` or v1's, means.

    Raises:
      ValueError: The losses would not be reduced, or the reduction is unknown.
    """
    if not isinstance(loss_reduction, str) or str(loss_reduction) not in _OLD_NAMES:
        raise ValueError(
            f"A head cannot reduce the losses of the examples to one: loss_reduction is "
            f"{loss_reduction!r}. Accepted are {list(_OLD_NAMES)}. Use the default, "
            "tf.losses.Reduction.SUM_OVER_BATCH_SIZE, for the mean over the examples."
        )
    return _OLD_NAMES[str(loss_reduction)]


def reduced_loss(losses: Tensor, weights: Tensor, loss_reduction: str) -> Tensor:
    """Reduces weighted losses to a scalar. The weights broadcast to the losses.

    With l the losses and w the weights: SUM is Σ w·l, SUM_OVER_BATCH_SIZE is Σ w·l / number of l,
    MEAN is Σ w·l / Σ w, SUM_BY_NONZERO_WEIGHTS is Σ w·l / number of w ≠ 0. A quotient with
    denominator 0 is 0.
    """
    reduction = old_reduction(loss_reduction)
    weights = tf.broadcast_to(weights, tf.shape(losses))
    total = tf.reduce_sum(losses * weights)
    if reduction == Reduction.SUM:
        return told(total, reduction)
    if reduction == Reduction.SUM_OVER_BATCH_SIZE:
        count = tf.cast(tf.size(losses), tf.float32)
    elif reduction == Reduction.MEAN:
        count = tf.reduce_sum(weights)
    else:
        count = tf.reduce_sum(tf.cast(tf.not_equal(weights, 0), tf.float32))
    return told(tf.math.divide_no_nan(total, count), reduction)


def total_regularization(regularization_losses: Sequence[Tensor]) -> Tensor:
    """Returns the sum of regularization losses, as a part of the training loss.

    Towers whose losses are summed would add it as often as there are towers. There the first tower
    adds it, and the others add 0.
    """
    total = tf.add_n(list(regularization_losses))
    build = current_build()
    return total if build is None or build.regularizes else tf.zeros_like(total)


def told(loss: Tensor, loss_reduction: str) -> Tensor:
    """Returns a loss, after telling the towers how it reduces the losses of the examples."""
    build = current_build()
    if build is not None and build.tower is not None:
        build.verdicts.tell(loss, old_reduction(loss_reduction) == Reduction.SUM)
    return loss


def check_loss_fn(loss_fn: Callable[..., Tensor], where: str) -> None:
    """Checks the parameters of a user's loss function: labels, logits, features, loss_reduction.

    Raises:
      TypeError: It is not a function.
      ValueError: It lacks labels or logits, or requires another argument.
    """
    if not callable(loss_fn):
        raise TypeError(
            f"Cannot make {where}: loss_fn must be a function of labels and logits, got "
            f"{loss_fn!r}. Pass the function itself."
        )
    named = named_arguments(
        f"loss_fn of {where}", loss_fn, ("labels", "logits", "features", "loss_reduction")
    )
    for missing in (name for name in ("labels", "logits") if name not in named):
        raise ValueError(
            f"Cannot make {where}: loss_fn has no parameter {missing!r}, of the known ones "
            f"only {named}. Give it labels and logits; features and loss_reduction are optional."
        )


def call_loss_fn(
    loss_fn: Callable[..., Tensor],
    labels: Tensor,
    logits: Tensor,
    features: Any,
    loss_reduction: str,
    loss_dimension: int,
    where: str,
) -> Tensor:
    """Calls a user's loss function, which was checked, with the arguments that it names.

    Returns:
      Losses of the examples, float32 [D0, ..., DN, loss_dimension].

    Raises:
      ValueError: Operations run eagerly, and the result has another shape. In a graph, an assertion
        fails when it runs.
    """
    names = inspect.signature(loss_fn).parameters
    optional = {"features": features, "loss_reduction": loss_reduction}
    given = {name: value for name, value in optional.items() if name in names}
    losses = tf.cast(loss_fn(labels=labels, logits=logits, **given), tf.float32)
    shape, logits_shape = tf.shape(losses), tf.shape(logits)
    return checked(
        losses,
        same_shape(shape, tf.concat([logits_shape[:-1], [loss_dimension]], axis=0)),
        f"loss_fn of {where} must return one loss for each example, of shape [D0, ..., DN, "
        f"{loss_dimension}] for logits of shape [D0, ..., DN, logits_dimension]. Do not reduce the "
        "losses over the batch, and keep the last axis.",
        {"loss_shape": shape, "logits_shape": logits_shape},
    )
