"""Finds the losses of a model in the graph of its training step, and registers them.

The search begins at the loss that is minimized and goes back through everything linear: means,
sums, weights of examples and of losses, masks. It ends at the op that computes −log p of targets.
The derivative of the loss with respect to that op is the weight of each example, whatever the
program makes it of. Called by the step.
"""

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from kfac._types import Operation, Scalar, Tensor, Variable
from kfac.damping.recomputed_loss import SHAPES
from kfac.keras.user_lines import warn
from kfac.layer_collection import LayerCollection
from kfac.linalg.tensor_ops import static_size
from kfac.variables import handles_of, is_captured

v1 = tf.compat.v1

_LINEAR = frozenset(
    {
        "BroadcastTo",
        "Cast",
        "ConcatV2",
        "ExpandDims",
        "Identity",
        "Mean",
        "Neg",
        "Pack",
        "Reshape",
        "Select",
        "SelectV2",
        "Squeeze",
        "StridedSlice",
        "Sub",
        "Sum",
        "Transpose",
        "Unpack",
        "Add",
        "AddN",
        "AddV2",
    }
)
"""Types of ops that are linear in all their floating-point inputs."""

_NOT_FOLLOWED = SHAPES | {"StopGradient"}
"""Types of ops through which a loss does not depend on variables."""

_BILINEAR = frozenset({"Mul", "MulNoNan"})
_QUOTIENTS = frozenset({"DivNoNan", "RealDiv"})

ACCEPTED = (
    "sparse and categorical cross entropy, binary cross entropy, and mean squared error, each "
    "also weighted and summed"
)


class FoundLoss(NamedTuple):
    """A −log p of targets in the graph, of a distribution that a layer collection registers.

    Its kind is "categorical", "onehot_categorical", "multi_bernoulli" or "normal". `predicted` are
    logits, or the mean of the normal distribution; targets are as the loss of that kind takes them.
    `value` is `factor` times −log p.
    """

    kind: str
    predicted: Tensor
    targets: Tensor
    value: Tensor
    factor: float = 1.0


def register_losses(
    layers: LayerCollection,
    losses: Sequence[Tensor],
    variables: Iterable[Variable],
    batch_size: Scalar | None,
) -> None:
    """Registers all losses that are added up in the loss of each tower.

    Each tower's loss has shape []; their sum is minimized. The variables are the trained ones, as
    the graph sees them. `batch_size` counts examples of one tower; None means the rows of what is
    predicted.

    Raises:
      ValueError: No term of the loss is of a known kind.
    """
    search = _Search(variables)
    for tower, loss in enumerate(losses):
        for number, found in enumerate(_losses_of(search, loss, warns=tower == 0)):
            options = {"name": f"loss_{number}", "reuse": tower > 0}
            weights = _weights(found, loss, batch_size, len(losses))
            _register(layers, found, weights, options)


def _losses_of(search: "_Search", loss: Tensor, warns: bool) -> list[FoundLoss]:
    search.run(loss)
    if not search.found:
        raise ValueError(
            f"K-FAC finds no loss that it knows in {loss.name!r}; it ends at "
            f"{_names(search.unknown) or 'no op that depends on the trained variables'}. "
            f"Accepted are {ACCEPTED}. For another one, register the distribution that your loss "
            "function is the negative log-probability of, in that function: "
            "kfac.graph_layer_collection().register_..._predictive_distribution(...)."
        )
    if search.unknown and warns:
        warn(
            f"K-FAC's curvature leaves out the terms of the loss that end at "
            f"{_names(search.unknown)}, which are no loss that it knows; their gradients count.",
            search.unknown[0].traceback,
        )
    return search.found


def _names(operations: Sequence[Operation]) -> str:
    return ", ".join(f"{op.name!r} ({op.type})" for op in operations)


class _Search:
    """A walk from the loss to its terms.

    It finds losses of a known kind, in the order in which the graph was built, and unknown ops that
    end the walk and are none, but depend on data and on trained variables.
    """

    def __init__(self, variables: Iterable[Variable]) -> None:
        """Finds all ops that depend on the trained variables."""
        self._dependent = _reachable([h for variable in variables for h in handles_of(variable)])
        self._found: dict[Operation, FoundLoss] = {}
        self._unknown: dict[Operation, None] = {}

    @property
    def found(self) -> list[FoundLoss]:
        return [self._found[op] for op in _in_order(self._found)]

    @property
    def unknown(self) -> list[Operation]:
        return _in_order(self._unknown)

    def run(self, loss: Tensor) -> None:
        """Walks back from a loss, after forgetting what was found before."""
        self._found, self._unknown = {}, {}
        waiting, seen = [loss], {loss.ref()}
        while waiting:
            tensor = waiting.pop()
            for before in self._step(tensor):
                if before.ref() not in seen:
                    seen.add(before.ref())
                    waiting.append(before)

    def depends(self, tensor: Tensor) -> bool:
        """Returns True if a tensor depends on the trained variables."""
        return tensor.op in self._dependent

    def _step(self, tensor: Tensor) -> list[Tensor]:
        """Returns the tensors to go on with, before one that is linear in them."""
        op = tensor.op
        if not self.depends(tensor):
            return []
        found = [loss for match in _MATCHERS if (loss := match(op, self.depends)) is not None]
        if found:
            self._found[op] = found[0]
            return []
        before = [taken for taken in op.inputs if self.depends(taken)]
        is_linear = (
            op.type in _LINEAR
            or (op.type in _BILINEAR and len(before) == 1)
            or (op.type in _QUOTIENTS and not self.depends(op.inputs[1]))
        )
        if is_linear:
            return before
        if _has_data(op):
            self._unknown[op] = None
        return []


def _in_order(operations: Iterable[Operation]) -> list[Operation]:
    chosen = set(operations)
    if not chosen:
        return []
    return [op for op in next(iter(chosen)).graph.get_operations() if op in chosen]


def _reachable(tensors: Sequence[Tensor]) -> set[Operation]:
    waiting, found = list(tensors), {tensor.op for tensor in tensors}
    while waiting:
        for op in waiting.pop().consumers():
            if op not in found and op.type not in _NOT_FOLLOWED:
                found.add(op)
                waiting.extend(op.outputs)
    return found


def _has_data(end: Operation) -> bool:
    """Returns True if an op depends on more than constants and variables."""
    waiting, seen = [end], {end}
    while waiting:
        op = waiting.pop()
        if not op.inputs and op.type != "Const" and not is_captured(op):
            return True
        for taken in op.inputs:
            if taken.op not in seen:
                seen.add(taken.op)
                waiting.append(taken.op)
    return False


# Matchers of −log p. Each takes an op, and a function that tells what depends on trained variables.

_Depends = Callable[[Tensor], bool]


def _softmax(op: Operation, depends: _Depends) -> FoundLoss | None:
    """Matches the ops of softmax cross entropy."""
    kinds = {
        "SparseSoftmaxCrossEntropyWithLogits": "categorical",
        "SoftmaxCrossEntropyWithLogits": "onehot_categorical",
    }
    if op.type not in kinds or depends(op.inputs[1]):
        return None
    logits, targets = op.inputs
    return FoundLoss(kinds[op.type], _unfolded(logits), targets, op.outputs[0])


def _unfolded(logits: Tensor) -> Tensor:
    """Returns logits [..., classes] from before their leading axes were folded into one."""
    source = logits.op.inputs[0] if logits.op.type == "Reshape" else logits
    rank, size = source.shape.rank, static_size(logits, -1)
    if rank is None or rank < 2 or size is None or static_size(source, -1) != size:
        return logits
    return source


def _squared_error(op: Operation, depends: _Depends) -> FoundLoss | None:
    """Matches (x − y)², where one of both is the prediction."""
    if op.type == "SquaredDifference":
        first, second = op.inputs
    elif op.type == "Square" and op.inputs[0].op.type == "Sub":
        first, second = op.inputs[0].op.inputs
    else:
        return None
    if depends(first) == depends(second):
        return None
    predicted, targets = (first, second) if depends(first) else (second, first)
    is_same = predicted.shape.rank is not None and predicted.shape.rank == op.outputs[0].shape.rank
    return FoundLoss("normal", predicted, targets, op.outputs[0]) if is_same else None


def _sigmoid(op: Operation, depends: _Depends) -> FoundLoss | None:
    """Matches max(x, 0) − x∘z + log(1 + exp(−|x|))."""
    logistic = _inputs(op, {"Add", "AddV2"})
    if len(logistic) != 2 or [t.op.type for t in logistic] != ["Sub", "Log1p"]:
        return None
    linear, product = logistic[0].op.inputs
    if linear.op.type not in {"Relu", "Select", "SelectV2", "Maximum"} or product.op.type != "Mul":
        return None
    for logits, targets in (product.op.inputs, tuple(product.op.inputs)[::-1]):
        if any(taken is logits for taken in linear.op.inputs) and not depends(targets):
            return FoundLoss("multi_bernoulli", logits, targets, op.outputs[0])
    return None


def _bernoulli(op: Operation, depends: _Depends) -> FoundLoss | None:
    """Matches z∘log p + (1 − z)∘log(1 − p)."""
    found = [_weighted_log(term, depends) for term in _inputs(op, {"Add", "AddV2"})]
    terms = [term for term in found if term is not None]
    if len(terms) != 2:
        return None
    (targets, p), (_, other) = terms
    is_complement = {other.op.type, *(t.op.type for t in other.op.inputs)} & {"Sub"}
    if not is_complement:
        return None
    logits = tf.math.log(p) - tf.math.log1p(-p)
    return FoundLoss("multi_bernoulli", logits, targets, op.outputs[0], -1.0)


def _categorical(op: Operation, depends: _Depends) -> FoundLoss | None:
    """Matches the sum over the last axis of z∘log p."""
    if op.type != "Sum" or op.inputs[0].shape.rank is None:
        return None
    axes = tf.get_static_value(op.inputs[1])
    term = _weighted_log(op.inputs[0], depends)
    if term is None or axes is None or term[1].shape.rank is None:
        return None
    last = op.inputs[0].shape.rank - 1
    if [int(axis) % (last + 1) for axis in axes.reshape([-1])] != [last] or op.get_attr(
        "keep_dims"
    ):
        return None
    targets, p = term
    return FoundLoss("onehot_categorical", tf.math.log(p), targets, op.outputs[0], -1.0)


def _inputs(op: Operation, types: set[str]) -> list[Tensor]:
    return list(op.inputs) if op.type in types else []


def _weighted_log(tensor: Tensor, depends: _Depends) -> tuple[Tensor, Tensor] | None:
    """Returns (z, p) of a product z∘log p, or None."""
    for log, targets in itertools.permutations(_inputs(tensor.op, {"Mul"}), 2):
        if log.op.type == "Log" and depends(log) and not depends(targets):
            return targets, log.op.inputs[0]
    return None


_MATCHERS = (_softmax, _squared_error, _sigmoid, _bernoulli, _categorical)


# Registration.


def _register(
    layers: LayerCollection, found: FoundLoss, weights: Tensor, options: Mapping[str, Any]
) -> None:
    predicted, kind = found.predicted, found.kind
    targets = found.targets
    if kind in {"categorical", "onehot_categorical"}:
        leading = tf.shape(predicted)[:-1]
        weights = _shaped(weights, leading, predicted.shape[:-1])
        if kind == "categorical":
            targets = _shaped(targets, leading, predicted.shape[:-1])
        else:
            targets = _shaped(targets, tf.shape(predicted), predicted.shape)
    function: Any = getattr(layers, f"register_{kind}_predictive_distribution")
    function(predicted, targets=targets, weights=weights, **options)


def _weights(found: FoundLoss, loss: Tensor, batch_size: Scalar | None, towers: int) -> Tensor:
    """Returns the weight of each −log p in a loss that is a mean over the batch of all towers."""
    (derivative,) = v1.gradients([loss], [found.value])
    examples = tf.shape(found.predicted)[0] if batch_size is None else batch_size
    scale = tf.cast(examples, derivative.dtype) * tf.constant(
        found.factor * towers, derivative.dtype
    )
    return tf.stop_gradient(derivative * scale)


def _shaped(tensor: Tensor, shape: Tensor, static: Any) -> Tensor:
    if tensor.shape.rank == static.rank and tensor.shape.is_compatible_with(static):
        return tensor
    reshaped = tf.reshape(tensor, shape)
    reshaped.set_shape(static)
    return reshaped
