"""Back-propagation of all signals of an estimation mode to the layers, over all towers.

Owns the differentiation, and the rule for tensors that a signal does not reach: a tensor that only
some losses reach gets zeros from the others, and a tensor that no loss reaches is an error.
`kfac.curvature.estimation_modes` defines the signals.

An estimator has one pass that always runs, or others that run only at times. Factors are made of
the gradients of the first one. If that runs only when statistics are due, they are made of
stand-ins for its gradients, and nothing else can come to depend on a pass that may not run.

Also owns faster ways to compute some gradients of a pass, where the model allows them: those of
statistics, and those of the loss.

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
its gradients. Called by the estimator and the optimizer.
"""

import contextlib
import functools
import itertools
import typing
from collections.abc import Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from kfac._types import GradsAndVars, Operation, Scalar, Tensor, Variable
from kfac.curvature.estimation_modes import EstimationMode, Signal
from kfac.fisher_blocks.base import FisherBlock
from kfac.fisher_factors.base import Substitutes
from kfac.linalg import tensor_ops
from kfac.registration.loss_table import RegisteredLosses
from kfac.registration.registered_model import RegisteredModel
from kfac.state import CPU, Gate, make_counter, read

v1 = tf.compat.v1


class BackwardPass(NamedTuple):
    """Signals that arrive at the tensors of the statistics.

    Gradients are by [source][tensor], None where a source does not reach a tensor, and by
    [source][variable]. `is_finite`, bool [], is true if all the losses are finite: with ReLUs a
    loss of NaN can have finite gradients, which mean nothing. `next_step`, int64 [], is the step of
    random draws after this pass.
    """

    gradients: tuple[tuple[Tensor | None, ...], ...]
    of_variables: tuple[tuple[Tensor | None, ...], ...]
    is_finite: Tensor
    next_step: Tensor


def propagate_back(
    mode: EstimationMode,
    losses: RegisteredLosses,
    tensors: Sequence[Tensor],
    sample_step: Variable,
    colocate: bool,
    variables: Sequence[Variable] = (),
) -> BackwardPass:
    """Builds one pass to tensors, layer outputs or parameters, and to further variables.

    Losses need not depend on these variables. `sample_step`, int64 [], is the step of random draws.
    `colocate` runs the pass on the devices of the forward pass.

    Raises:
      ValueError: No source reaches some of the tensors; the message names them.
    """
    step = read(sample_step)
    values = losses.loss_table.evaluate(mode.target_mode, mode.coeff_mode, step)
    signals = mode.make_signals(losses, step) if mode.make_signals else [Signal(values)]
    targets = [*tensors, *variables]
    all_gradients = []
    for signal in signals:
        found = v1.gradients(
            signal.starts, targets, signal.derivatives, colocate_gradients_with_ops=colocate
        )
        # Lookups in a table give sparse gradients.
        dense = [None if g is None else tf.convert_to_tensor(g) for g in found]
        all_gradients.append(tuple(mask_before_unpooling(dense)))
    gradients = tuple(of_source[: len(tensors)] for of_source in all_gradients)
    of_variables = tuple(of_source[len(tensors) :] for of_source in all_gradients)
    by_tensor = zip(tensors, zip(*gradients, strict=True), strict=True)
    unreached = [tensor.name for tensor, found in by_tensor if all(g is None for g in found)]
    if unreached:
        raise ValueError(
            "Cannot compute K-FAC statistics: no registered loss depends on these registered "
            f"layer outputs: {', '.join(unreached)}. Register as outputs the very tensors that "
            "the rest of the model uses, and the loss that is computed from them."
        )
    is_finite = tensor_ops.all_true([tensor_ops.all_finite(value) for value in values])
    with v1.device(CPU):
        next_step = step + 1
    return BackwardPass(gradients, of_variables, is_finite, next_step)


def block_gradients(backward: BackwardPass, first: int, tensors: Any) -> list[Any]:
    """Returns the gradients of one block's tensors for each source, structured as the tensors.

    `first` is the number of the first of them in the pass. Sources that reach none of them are left
    out, as they add nothing. Other gaps become zeros.
    """
    flat = tf.nest.flatten(tensors)
    sources = [of_source[first : first + len(flat)] for of_source in backward.gradients]
    return [
        tf.nest.pack_sequence_as(
            tensors, [_or_zeros(*pair) for pair in zip(found, flat, strict=True)]
        )
        for found in sources
        if any(gradient is not None for gradient in found)
    ]


def _or_zeros(gradient: Tensor | None, tensor: Tensor) -> Tensor:
    if gradient is not None:
        return gradient
    with v1.device(tensor.device):
        return tf.zeros_like(tensor)


@typing.final
class BackwardPasses:
    """Makes backward passes from the losses of a finalized collection, below a name scope.

    Attributes:
      sample_step: int64 variable [], how many times targets were drawn.
      new: Returns a new pass, to further `variables`, too; see `propagate_back`.
    """

    def __init__(
        self, name: str, mode: EstimationMode, collection: RegisteredModel, colocate: bool
    ) -> None:
        """Makes the variable. `colocate` runs the passes where the forward pass ran."""
        self._name = name
        self.sample_step = make_counter("sample_step")
        tensors = [block.tensors_to_compute_grads() for block in collection.get_blocks()]
        self.new = functools.partial(
            propagate_back, mode, collection, tf.nest.flatten(tensors), self.sample_step, colocate
        )
        self._always: BackwardPass | None = None
        self._stand_ins: BackwardPass | None = None

    @property
    def are_none(self) -> bool:
        """True before factors can have been made."""
        return self._always is None and self._stand_ins is None

    def of_factors(self, variables: Sequence[Variable] = ()) -> BackwardPass:
        """Returns the pass that factors are made of, or stand-ins for it.

        Only the first call may ask for the gradients of variables.
        """
        return self._stand_ins or self.always(variables)

    def always(self, variables: Sequence[Variable] = ()) -> BackwardPass:
        """Returns the pass that always runs. Only the first call may ask for variables."""
        if self._always is None:
            # Once factors are made, a conditional branch may ask for it.
            scope = contextlib.nullcontext() if self.are_none else tf.init_scope()
            with scope, v1.name_scope(self._name):
                self._always = self.new(variables=variables)
        return self._always

    def behind(self, gate: Gate) -> BackwardPass:
        """Returns the first pass, behind a gate. Factors get stand-ins for it.

        A pass that runs only when statistics are due must not be used directly: an operation that
        uses it would run only then, too. A placeholder has no such operation before it. Tensors
        that share a gradient share the placeholder.
        """
        with v1.name_scope(self._name), gate.open():
            backward = self.new()
        made: dict[Any, Tensor] = {}
        for gradient in filter(tf.is_tensor, itertools.chain(*backward.gradients)):
            if gradient.ref() not in made:
                with v1.device(gradient.device):
                    made[gradient.ref()] = tf.raw_ops.Placeholder(
                        dtype=gradient.dtype, shape=gradient.shape
                    )
        gradients = tuple(
            tuple(None if gradient is None else made[gradient.ref()] for gradient in source)
            for source in backward.gradients
        )
        self._stand_ins = backward._replace(gradients=gradients)
        return backward

    def substitutes(self, backward: BackwardPass | None = None) -> Substitutes:
        """Returns the gradients of a pass, or of the one that always runs, by those of factors."""
        old, new = self._stand_ins or self.always(), backward or self.always()
        return {
            before.ref(): after
            for old_source, new_source in zip(old.gradients, new.gradients, strict=True)
            for before, after in zip(old_source, new_source, strict=True)
            if before is not None
        }


def may_stand_in(blocks: Sequence[FisherBlock]) -> bool:
    """Returns True if factors can be made of stand-ins: if no block is one of a program's own.

    Such blocks may compute with gradients when they make factors.
    """
    package = FisherBlock.__module__.rpartition(".")[0]
    return all(type(block).__module__.startswith(f"{package}.") for block in blocks)


def first_order_statistics(
    backward: BackwardPass, variables: Sequence[Variable], batch_size: Tensor
) -> tuple[Tensor, ...]:
    """Returns the gradients of variables, summed over sources, over all towers' batch size."""
    statistics = []
    for variable, gradients in zip(
        variables, zip(*backward.of_variables, strict=True), strict=True
    ):
        total = tf.add_n([_or_zeros(gradient, variable) for gradient in gradients])
        statistics.append(total / tf.cast(batch_size, total.dtype))
    return tuple(statistics)


def checked_batch_size(batch_size: Scalar, losses: RegisteredLosses) -> Tensor:
    """Compares the number of examples in all towers with the losses; returns it, int [], checked.

    The inputs of a loss must have as many rows over all towers, or a multiple: time steps may be
    folded into the rows.

    Raises:
      ValueError: The batch size does not fit a static number of rows. For other rows an op checks
        it.
    """
    checks = []
    for name, entry in losses.loss_table.entries.items():
        message = (
            f"batch_size={batch_size} does not fit to loss {name!r}: the rows of its inputs, over "
            "all towers, are not a multiple. Pass the number of examples in all towers together."
        )
        shapes = [loss.fisher_factor_inner_static_shape for loss in entry.towers]
        sizes = [shape.as_list()[0] for shape in shapes if shape.rank]
        if isinstance(batch_size, int) and len(sizes) == len(shapes) and None not in sizes:
            rows = sum(sizes)
            if rows % batch_size:
                raise ValueError(f"Cannot compute K-FAC statistics of {rows} rows: {message}")
            continue
        rows = tf.add_n([loss.fisher_factor_inner_shape[0] for loss in entry.towers])
        remainder = rows % tf.cast(batch_size, rows.dtype)
        checks.append(v1.debugging.assert_equal(remainder, 0, data=[rows], message=message))
    with v1.control_dependencies(checks):
        return tf.identity(batch_size)


# Faster gradients of a pass.


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
