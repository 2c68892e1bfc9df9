"""Gradients of one tower, as shares of the gradient of the whole batch.

The sum of all towers' shares is the gradient that one tower has. Gradients that `compute_gradients`
did not compute are scaled to shares here, and those of a scaled loss are told from the others.
Called by `TowerOptimizer.apply_gradients`, before gradients are added up.
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
    """Makes Tensors of gradients that are arrays, numbers or variables; keeps None."""
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
    """Scales the gradients that `compute_gradients` did not compute to the tower's share.

    Args:
      pairs: Gradients and variables.
      origins: The gradients' origins.
      scaled: Returns the share of a tensor, under a name.
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
    """Tells which gradients are those of the optimizer's scaled loss.

    Args:
      pairs: Gradients and variables.
      origins: The gradients' origins.
      scaling: That of the optimizer, if its `compute_gradients` has used one.
      required: Whether the optimizer has a loss scale.

    Returns:
      One answer for each pair.

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
    """Returns references of the variables whose gradients are those of a scaled loss.

    Raises:
      ValueError: Some of a variable's gradients are, and others are not.
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
