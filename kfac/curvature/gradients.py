"""Faster ways to compute the gradients of one backward pass, where the model allows them.

Gradients through a max pool of a ReLU are masked before un-pooling rather than after. TensorFlow
first spreads the gradient over each window, with zeros everywhere but at the maximum, and then sets
it to zero where the ReLU was zero. The maximum of a window is zero exactly where its ReLU is. So
masking at the maxima before un-pooling gives the same gradient, and masks fewer elements. The
gradient of a bias is the sum of the masked elements, and needs no un-pooling. Only gradients from
which nothing is propagated further are replaced: those of a network's first layer, which is usually
its largest.

Gradients of the biases of convolutions become sums over the gradients of the outputs: TensorFlow's
CPU kernels compute the gradients of a bias and its filter in one op, unless gradients are gated op
by op. That op takes longer than the filter's gradient and a sum together, and K-FAC does not gate
its gradients. Called by the backward pass and the optimizer, each with its own gradients.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from kfac._types import GradsAndVars, Operation, Tensor, Variable

v1 = tf.compat.v1


def faster_gradients(grads_and_vars: GradsAndVars) -> list[tuple[Any, Variable]]:
    """Returns the gradients of one backward pass, some of them computed in a faster way.

    Dense gradients get the static shapes of their variables. A gradient may be None.
    """
    gradients, variables = zip(*grads_and_vars, strict=True)
    found = []
    for masked, variable in zip(mask_before_unpooling(gradients), variables, strict=True):
        gradient = as_sum(masked) if isinstance(masked, tf.Tensor) else masked
        if isinstance(gradient, tf.Tensor):
            gradient.set_shape(variable.shape)
        found.append((gradient, variable))
    return found


def as_sum(gradient: Tensor) -> Tensor:
    """Returns a gradient as a sum, if it is that of the bias of a 2-D convolution."""
    op = gradient.op
    if op.type != "BiasAddGrad":
        return gradient
    outputs = op.inputs[0]
    is_of_filter = [op.type == "Conv2DBackpropFilter" for op in outputs.consumers()]
    if outputs.shape.rank != 4 or not any(is_of_filter):
        return gradient
    axes = [0, 2, 3] if op.get_attr("data_format") == b"NCHW" else [0, 1, 2]
    with v1.device(op.device):
        return tf.reduce_sum(outputs, axis=axes)


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
