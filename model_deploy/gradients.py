"""Sums of gradients over several copies of a model, one sum per variable.

Gradients may be dense or sparse. The copies scale their losses before gradients are computed, so
that a sum is the gradient of the whole batch. Computing and applying gradients happens elsewhere.
"""

import contextlib
from collections.abc import Sequence
from typing import TypeAlias

import tensorflow as tf

from model_deploy._types import Gradient, Tensor, Variable
from model_deploy.arguments import check_sequence

v1 = tf.compat.v1

GradientsAndVariables: TypeAlias = Sequence[tuple[Gradient | None, Variable]]

_SUM, _PAIRS = "sum gradients over copies", "a list of (gradient, variable) pairs"


def sum_gradients(gradients: Sequence[Gradient | None], name: str | None = None) -> Gradient | None:
    """Sums gradients of one variable.

    Sparse gradients stay sparse: rows and indices are concatenated, and rows with the same index
    add up. A mixture of dense and sparse gradients becomes dense.

    Args:
      gradients: Tensors or IndexedSlices of the variable's shape; None entries count as zero.
      name: Name of the resulting operation.

    Returns:
      The sum, or None if every entry is None.

    Raises:
      TypeError: `gradients` is no list.
    """
    check_sequence("sum gradients", "gradients", gradients, "a list of Tensors or IndexedSlices")
    present = [gradient for gradient in gradients if gradient is not None]
    if len(present) <= 1:
        return present[0] if present else None
    if all(isinstance(gradient, tf.IndexedSlices) for gradient in present):
        return _concatenate_slices(present, name)
    return add_in_order([v1.convert_to_tensor(gradient) for gradient in present], name)


def add_in_order(tensors: Sequence[Tensor], name: str | None = None) -> Tensor:
    """Sums tensors of one shape, at least one, with the same rounding in each run.

    `add_n` starts with the first operand whose memory it may reuse. Which one that is depends on
    what else has been computed by then. So the first of three or more operands is copied, and its
    memory can always be reused.
    """
    first, *others = tensors
    if len(others) > 1:
        with v1.get_default_graph().gradient_override_map({"Snapshot": "Identity"}):
            first = tf.raw_ops.Snapshot(input=first)
    return v1.add_n([first, *others], name=name)


def sum_over_copies(
    copies: Sequence[GradientsAndVariables], on_variable_device: bool = True
) -> list[tuple[Gradient, Variable]]:
    """Sums the gradients of all copies, variable by variable.

    Args:
      copies: The (gradient, variable) pairs of each copy.
      on_variable_device: True computes each sum on the device of its variable; False leaves the
        device to the active device scope.

    Returns:
      One (sum, variable) pair for each variable that has a gradient in at least one copy, in the
      order in which the variables first appear.

    Raises:
      TypeError: `copies` is no list, or has an entry that is none.
    """
    check_sequence(_SUM, "copies", copies, f"{_PAIRS} for each copy")
    by_variable: dict[object, tuple[Variable, list[Gradient]]] = {}
    for gradients_and_variables in copies:
        check_sequence(_SUM, "an entry of copies", gradients_and_variables, _PAIRS)
        for gradient, variable in gradients_and_variables:
            _, gradients = by_variable.setdefault(variable.ref(), (variable, []))
            if gradient is not None:
                gradients.append(gradient)
    summed = []
    for variable, gradients in by_variable.values():
        device = v1.device(variable.device) if on_variable_device else contextlib.nullcontext()
        with device:
            total = sum_gradients(gradients, name=f"{variable.op.name}/sum_grads")
        if total is not None:
            summed.append((total, variable))
    return summed


def gradient_values(gradient: Gradient) -> Tensor:
    """Returns a dense gradient itself, or the rows of IndexedSlices."""
    return gradient.values if isinstance(gradient, tf.IndexedSlices) else gradient


def with_values(gradient: Gradient, values: Tensor) -> Gradient:
    """Returns a gradient of the same form (dense, or for the same rows) with new values."""
    if isinstance(gradient, tf.IndexedSlices):
        return tf.IndexedSlices(values, gradient.indices, gradient.dense_shape)
    return values


def _concatenate_slices(slices: Sequence[tf.IndexedSlices], name: str | None) -> tf.IndexedSlices:
    with v1.name_scope(name, "concat_slices"):
        return tf.IndexedSlices(
            values=tf.concat([part.values for part in slices], axis=0),
            indices=tf.concat([part.indices for part in slices], axis=0),
            dense_shape=slices[0].dense_shape,
        )
