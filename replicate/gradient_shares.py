"""Gradients of one tower as shares of the whole batch's gradient.

The sum of all towers' shares is the gradient of the batch. Gradients that do not come from
`compute_gradients` are scaled to shares here. Gradients of a loss with a loss scale are marked.
`TowerOptimizer.apply_gradients` calls this before the sum over towers.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias

import tensorflow as tf

from model_deploy.gradients import gradient_values, with_values
from replicate._types import Gradient, Tensor, Variable
from replicate.gradient_origins import Origins
from replicate.loss_scale import LossScaling
from replicate.towers import TowerGradients

Pairs: TypeAlias = Sequence[tuple[Gradient | None, Variable]]


def as_gradients(
    gradients_and_variables: Iterable[tuple[Any, Variable]],
) -> list[tuple[Gradient | None, Variable]]:
    """Converts gradients that are arrays, numbers or variables to Tensors. Keeps None."""
    return [
        (
            gradient
            if gradient is None or isinstance(gradient, tf.Tensor | tf.IndexedSlices)
            else tf.convert_to_tensor(gradient, variable.dtype.base_dtype),
            variable,
        )
        for gradient, variable in gradients_and_variables
    ]


def shares(
    pairs: Pairs, origins: Origins, scaled: Callable[[Tensor, str], Tensor]
) -> list[tuple[Gradient | None, Variable]]:
    """Scales the gradients that do not come from `compute_gradients` to the tower's share.

    Args:
      pairs: Gradients and variables.
      origins: Origins of the gradients.
      scaled: Function of a tensor and the name of an operation; returns the tower's share.
    """
    result: list[tuple[Gradient | None, Variable]] = []
    for (gradient, variable), scalings in zip(pairs, origins.scalings, strict=True):
        if gradient is None or scalings:
            result.append((gradient, variable))
        else:
            share = scaled(gradient_values(gradient), "averaged_gradient")
            result.append((with_values(gradient, share), variable))
    return result


def are_loss_scaled(
    pairs: Pairs, origins: Origins, scaling: LossScaling | None, required: bool
) -> list[bool]:
    """Finds the gradients of the optimizer's scaled loss.

    Args:
      pairs: Gradients and variables.
      origins: Origins of the gradients.
      scaling: Scaling that the optimizer's `compute_gradients` has used, if any.
      required: True if the optimizer has a loss scale.

    Returns:
      For each pair, True if the gradient has the loss scale.

    Raises:
      ValueError: A gradient has the loss scale of another optimizer, or a loss scale is required
        and no gradient has it.
    """
    for (_, variable), scalings in zip(pairs, origins.scalings, strict=True):
        if len(scalings) > 1 or any(each not in (None, scaling) for each in scalings):
            raise ValueError(
                f"Cannot apply the gradient of {variable.op.name}: another TowerOptimizer computed "
                f"it, or part of it, with another loss_scale. Apply it by the TowerOptimizer whose "
                f"compute_gradients returned it."
            )
    are_scaled = [scaling is not None and scaling in scalings for scalings in origins.scalings]
    has_gradient = any(gradient is not None for gradient, _ in pairs)
    if required and has_gradient and not any(are_scaled):
        raise ValueError(
            "Cannot apply gradients by TowerOptimizer(loss_scale=…): none of them comes from its "
            "compute_gradients, so nothing scales their loss. Replace tf.gradients by "
            "compute_gradients or minimize of this optimizer, or leave out loss_scale."
        )
    return are_scaled


def loss_scaled_variables(towers: Iterable[TowerGradients]) -> set[Any]:
    """Returns references of the variables whose gradients have a loss scale.

    Raises:
      ValueError: Some of a variable's gradients have a loss scale, and others have none.
    """
    kinds: dict[Any, set[bool]] = {}
    for part in towers:
        for pair, is_scaled in zip(part.gradients_and_variables, part.loss_scaled, strict=True):
            gradient, variable = pair
            if gradient is not None:
                kinds.setdefault(variable.ref(), set()).add(is_scaled)
    for reference, kind in kinds.items():
        if len(kind) > 1:
            raise ValueError(
                f"Cannot add up the gradients of {reference.deref().op.name}: some come from "
                f"compute_gradients, with a loss_scale, and some from elsewhere, without one. "
                f"Compute all gradients of a variable by compute_gradients of this TowerOptimizer."
            )
    return {reference for reference, kind in kinds.items() if kind == {True}}
