"""Gradients of several copies of a model, reduced to one gradient per variable.

Owns the sum over towers or clones, dense and sparse. Does not compute gradients and does not apply
them. The copies scale their losses first, so that a sum here is the gradient of the whole batch.
"""

import contextlib
from collections.abc import Sequence
from typing import TypeAlias

import tensorflow as tf

from model_deploy._types import Gradient, Tensor, Variable

v1 = tf.compat.v1

GradientsAndVariables: TypeAlias = Sequence[tuple[Gradient | None, Variable]]


def sum_gradients(gradients: Sequence[Gradient | None], name: str | None = None) -> Gradient | None:
    """Adds up gradients of one variable.

    Sparse gradients stay sparse: rows and indices are concatenated, and an index that appears
    twice counts twice. A mixture of dense and sparse gradients becomes dense.

    Args:
      gradients: Tensors or IndexedSlices of the variable's shape; None entries count as zero.
      name: Name of the resulting operation.

    Returns:
      The sum, or None if every entry is None.
    """
    present = [gradient for gradient in gradients if gradient is not None]
    if len(present) <= 1:
        return present[0] if present else None
    if all(isinstance(gradient, tf.IndexedSlices) for gradient in present):
        return _concatenate_slices(present, name)
    return add_in_order([v1.convert_to_tensor(gradient) for gradient in present], name)


def add_in_order(tensors: Sequence[Tensor], name: str | None = None) -> Tensor:
    """Adds up tensors of one shape, rounding alike in each run.

    `add_n` begins with the first of its operands whose memory it may take, and which one that is
    depends on what else has been computed by then. So of more than two the first is one that
    nothing else reads.

    Args:
      tensors: At least one.
      name: Name of the resulting operation.
    """
    first, *others = tensors
    if len(others) > 1:
        with v1.get_default_graph().gradient_override_map({"Snapshot": "Identity"}):
            first = tf.raw_ops.Snapshot(input=first)
    return v1.add_n([first, *others], name=name)


def sum_over_copies(
    copies: Sequence[GradientsAndVariables], on_variable_device: bool = True
) -> list[tuple[Gradient, Variable]]:
    """Adds up the gradients of all copies, variable by variable.

    Args:
      copies: For each copy its (gradient, variable) pairs.
      on_variable_device: Whether each sum is computed where its variable lives, whatever device
        scope this is called in; else the scope decides.

    Returns:
      One (sum, variable) pair for each variable that has a gradient in some copy, in the order in
      which the variables first appear.
    """
    by_variable: dict[object, tuple[Variable, list[Gradient]]] = {}
    for gradients_and_variables in copies:
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
    """Returns the numbers of a gradient: itself, or the rows that IndexedSlices hold."""
    return gradient.values if isinstance(gradient, tf.IndexedSlices) else gradient


def with_values(gradient: Gradient, values: Tensor) -> Gradient:
    """Returns a gradient of the same form, dense or for the same rows, with other numbers."""
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
