"""Warnings about changes of gradients that give other results on several towers than on one.

A tower may change its gradients in any way that commutes with the sum over towers. Clipping does
not: the norm of a tower's gradient is not the norm of the batch's gradient. A term that each tower
adds is added once per tower. This module recognizes the usual forms of both in the graph. It
changes nothing.
"""

from collections.abc import Iterable, Iterator, Sequence

from absl import logging

from model_deploy.gradients import gradient_values
from replicate._types import Gradient, Operation, Tensor, Variable
from replicate.gradient_origins import DerivedGradients, Origins

_COPIES = frozenset({"CheckNumerics", "Identity"})
_LIMITS = frozenset({"ClipByValue", "Maximum", "Minimum"})
_PRODUCTS = frozenset({"Mul", "RealDiv"})
_SQUARES = frozenset({"L2Loss", "Mul", "Square"})
_SUMS = frozenset({"Add", "AddN", "AddV2", "Sub"})
_REDUCTIONS = frozenset({"ConcatV2", "Pack", "Sum"})


_CLIPPED = (
    "Each of the %d towers clips its own gradients (that of %s, for one) before TowerOptimizer "
    "adds them up. One tower would clip the gradients of the whole batch, which may have another "
    "norm, so several towers may train differently from one. Pass clip_norm to TowerOptimizer "
    "instead: it clips the whole batch's gradients by their global norm."
)
_ADDED = (
    "Each of the %d towers adds %s to the gradient of %s that compute_gradients returned. That "
    "gradient is the tower's share of the batch's, so the sum over towers contains the term %d "
    "times. Add it to the loss instead, or in the optimizer that TowerOptimizer wraps."
)


def warn_of_differences(
    gradients_and_variables: Iterable[tuple[Gradient | None, Variable]],
    origins: Origins,
    towers: int,
) -> None:
    """Logs a warning if a tower clips its gradients, and one if it adds a term to them.

    Args:
      gradients_and_variables: Pairs that one tower passed to `apply_gradients`.
      origins: Origins of the gradients.
      towers: Number of towers, > 1.
    """
    if origins.derived is None:
        return  # All gradients are as compute_gradients returned them.
    changed = [
        (gradient, variable, bool(scalings))
        for (gradient, variable), scalings in zip(
            gradients_and_variables, origins.scalings, strict=True
        )
        if gradient is not None
    ]
    log = logging.get_absl_logger()
    clipped = [variable for gradient, variable, _ in changed if is_clipped(gradient)]
    for variable in clipped[:1]:
        log.warning(_CLIPPED, towers, variable.op.name)
    computed = [(gradient, variable) for gradient, variable, is_computed in changed if is_computed]
    for term, variable in added_terms(computed, origins.derived)[:1]:
        log.warning(_ADDED, towers, term.op.name, variable.op.name, towers)


def is_clipped(gradient: Gradient) -> bool:
    """Returns True for a gradient computed by `tf.clip_by_norm` or a similar function.

    Such a gradient is limited by value, or multiplied by a number that depends on its own norm.
    Only copies may follow.
    """
    clipped = _original(gradient_values(gradient)).op
    if clipped.type in _LIMITS:
        return True
    if clipped.type not in _PRODUCTS:
        return False
    operands = [_original(operand) for operand in clipped.inputs]
    numbers = [operand for operand in operands if operand.shape.num_elements() == 1]
    squared = {tensor.ref() for number in numbers for tensor in _squared(number)}
    within = {tensor.ref() for operand in operands for tensor in (operand, *_factors(operand))}
    return not squared.isdisjoint(within)


def added_terms(
    gradients_and_variables: Iterable[tuple[Gradient, Variable]], derived: DerivedGradients
) -> list[tuple[Tensor, Variable]]:
    """Finds terms that were added to gradients of `compute_gradients`.

    Args:
      gradients_and_variables: Gradients computed from those of `compute_gradients`.
      derived: Operations that compute something from registered gradients.

    Returns:
      Each term that does not come from `compute_gradients` and has the variable's shape, with the
      variable.
    """
    return [
        (term, variable)
        for gradient, variable in gradients_and_variables
        for term in _foreign_terms(gradient_values(gradient), derived)
        if term.shape.is_compatible_with(variable.shape)
    ]


def _foreign_terms(values: Tensor, derived: DerivedGradients) -> Iterator[Tensor]:
    pending: list[Tensor] = [values]
    seen: set[Operation] = set()
    while pending:
        operation = pending.pop().op
        if operation in seen:
            continue
        seen.add(operation)
        for operand in operation.inputs:
            if not derived.scalings_of(operand):
                if operation.type in _SUMS:
                    yield operand
            elif not derived.computed.registers(operand):
                pending.append(operand)


def _original(tensor: Tensor) -> Tensor:
    """Follows copies back to the original tensor."""
    while tensor.op.type in _COPIES:
        tensor = tensor.op.inputs[0]
    return tensor


def _factors(tensor: Tensor) -> Sequence[Tensor]:
    return [_original(each) for each in tensor.op.inputs] if tensor.op.type in _PRODUCTS else []


def _squared(number: Tensor) -> list[Tensor]:
    """Returns the tensors whose squares a number depends on through numbers and sums."""
    squared, pending = [], [number]
    seen: set[Operation] = set()
    while pending:
        operation = pending.pop().op
        if operation in seen:
            continue
        seen.add(operation)
        for operand in operation.inputs:
            is_number = operand.shape.num_elements() == 1
            if operation.type in _SQUARES:
                squared.append(_original(operand))
            if is_number or operation.type in _REDUCTIONS:
                pending.append(operand)
    return squared
