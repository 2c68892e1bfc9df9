"""Gradients through a max pool of a ReLU, masked before un-pooling rather than after.

TensorFlow first spreads the gradient over each window, with zeros everywhere but at the maximum,
and then sets it to zero where the ReLU was zero. The maximum of a window is zero exactly where its
ReLU is. So masking at the maxima before un-pooling gives the same gradient, and masks fewer
elements. The gradient of a bias is the sum of the masked elements, and needs no un-pooling. Only
gradients from which nothing is propagated further are replaced: those of a network's first layer,
which is usually its largest. Called by the backward pass and the optimizer, each with its own
gradients.
"""

from collections.abc import Sequence
from typing import NamedTuple

import tensorflow as tf

from kfac._types import Operation, Tensor

v1 = tf.compat.v1


class _Masked(NamedTuple):
    """Gradients at the input of a ReLU: at the maxima of the windows only, and at all places."""

    at_maxima: Tensor
    spread: Tensor


def mask_before_unpooling(gradients: Sequence[Tensor | None]) -> list[Tensor | None]:
    """Returns all gradients of one backward pass, some of them masked before un-pooling."""
    ends = {gradient.op for gradient in gradients if isinstance(gradient, tf.Tensor)}
    found: dict[Operation, _Masked] = {}

    def masked(masking: Operation) -> _Masked:
        if masking not in found:
            found[masking] = _masked(masking)
        return found[masking]

    replaced = list(gradients)
    for index, gradient in enumerate(gradients):
        if not isinstance(gradient, tf.Tensor):
            continue
        op = gradient.op
        if _is_last(op, ends):
            replaced[index] = masked(op).spread
        elif op.type == "BiasAddGrad" and _is_last(op.inputs[0].op, ends):
            replaced[index] = _with_inputs(op, [masked(op.inputs[0].op).at_maxima])
        elif op.type == "Conv2DBackpropFilter" and _is_last(op.inputs[2].op, ends):
            replaced[index] = _with_inputs(op, [*op.inputs[:2], masked(op.inputs[2].op).spread])
    return replaced


def _is_last(op: Operation, ends: set[Operation]) -> bool:
    """Returns True if an op masks the un-pooled gradient of a ReLU, and only `ends` use it."""
    if op.type != "ReluGrad" or op.inputs[0].op.type != "MaxPoolGrad":
        return False
    consumers = [*op.outputs[0].consumers(), *op.inputs[0].consumers()]
    goes_on = [c for c in consumers if c is not op and c not in ends and _is_used(c)]
    return op.inputs[0].op.inputs[0] is op.inputs[1] and not goes_on


def _is_used(op: Operation) -> bool:
    return any(output.consumers() for output in op.outputs)


def _masked(masking: Operation) -> _Masked:
    spreading = masking.inputs[0].op
    activations, maxima, gradient = spreading.inputs
    at_maxima = _with_inputs(masking, [gradient, maxima])
    return _Masked(at_maxima, _with_inputs(spreading, [activations, maxima, at_maxima]))


def _with_inputs(op: Operation, inputs: Sequence[Tensor]) -> Tensor:
    """Returns the result of an op of one output for other inputs."""
    attributes = {name: value for name, value in op.node_def.attr.items() if name != "_class"}
    with v1.device(op.device):
        copy = op.graph.create_op(
            op.type, list(inputs), [output.dtype for output in op.outputs], attrs=attributes
        )
    return copy.outputs[0]
