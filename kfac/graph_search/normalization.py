"""Recognises scale and shift, by itself and at the end of a normalization.

    y = x∘γ + β
    y = x∘m + (β − μ∘m), with m = s∘γ       (`tf.nn.batch_normalization`, Keras)
    y = c∘m + β, with c = x − μ             (layer normalization of Keras 3.16)
    y = FusedBatchNorm(x, γ, β)

In the second and third form, the graph does not have the normalized x, which is (x − μ)∘s. In the
fourth form, it has the normalized x only for some γ. So these forms return a function that makes
it. Called by the table of matchers.
"""

from collections.abc import Callable
from typing import NamedTuple

import tensorflow as tf

from kfac._types import Operation, Tensor, Variable
from kfac.graph_search.bias import ADDITIONS, SUMS
from kfac.graph_search.records import MatchRecord, NotRegistrableError, RecordType, with_part
from kfac.graph_search.tower import Tower
from kfac.linalg.shared import shared_constant
from kfac.registration.subgraph import Use

v1 = tf.compat.v1


class _Affine(NamedTuple):
    """A tensor x, normalized, or a function that makes it; and y = x∘γ, or x∘γ + β with a shift β.

    The match covers `tensors`.
    """

    inputs: Tensor | Callable[[], Tensor]
    outputs: Tensor
    shift: Variable | None
    tensors: tuple[Tensor, ...]


def match_scale(tower: Tower, variable: Variable, use: Use) -> list[MatchRecord]:
    """Returns the scale and shift that a `Mul` can belong to: without and with the shift."""
    op = use.op
    other, product = op.inputs[1 - use.position], op.outputs[0]
    if tower.variable_of(other) is not None:
        raise NotRegistrableError(f"is multiplied with another parameter in {op.name!r}")
    affine = (
        _unfused_norm(tower, other, product)
        or _centred_norm(tower, other, product)
        or _plain(tower, other, product)
    )
    if affine is None or not _broadcasts(variable, use.value, affine.outputs):
        raise NotRegistrableError(f"is multiplied in {op.name!r}, but does not scale each example")
    return _records(tower, variable, use, affine)


def _records(tower: Tower, variable: Variable, use: Use, affine: _Affine) -> list[MatchRecord]:
    data = {"inputs": affine.inputs, "outputs": affine.outputs}
    alone = tower.match(RecordType.scale_and_shift, variable, use, data)
    if affine.shift is None:
        return [alone]
    return [alone, with_part(alone, affine.shift, affine.tensors, " with a shift")]


def _plain(tower: Tower, x: Tensor, product: Tensor) -> _Affine | None:
    """Returns the match of y = x∘γ or y = x∘γ + β, or None."""
    return _shifted(tower, x, product) if _scales_examples(tower, x, product) else None


def _centred_norm(tower: Tower, s: Tensor, m: Tensor) -> _Affine | None:
    """Returns the match of y = c∘m or y = c∘m + β with m = s∘γ, or None."""
    use = tower.only_consumer(m)
    if use is None or use.op.type != "Mul":
        return None
    c, product = use.op.inputs[1 - use.position], use.op.outputs[0]
    if (
        s.shape.rank is None
        or s.shape.rank != m.shape.rank
        or s.shape.as_list() == m.shape.as_list()
    ):
        return None
    if not _scales_examples(tower, c, product):
        return None
    return _shifted(tower, _normalize(c, 0, s, use.op), product)


def _scales_examples(tower: Tower, x: Tensor, product: Tensor) -> bool:
    if x.shape.rank is None or x.shape.as_list() != product.shape.as_list():
        return False
    return tower.is_by_example(x) and not tower.is_of_variables(x)


def _shifted(tower: Tower, inputs: Tensor | Callable[[], Tensor], product: Tensor) -> _Affine:
    use = tower.only_consumer(product)
    if use is not None and use.op.type in ADDITIONS:
        result, other = use.op.outputs[0], use.op.inputs[1 - use.position]
        shift = tower.variable_of(other)
        if shift is not None and _broadcasts(shift, other, result):
            return _Affine(inputs, result, shift, (other, result))
    return _Affine(inputs, product, None, ())


def _unfused_norm(tower: Tower, s: Tensor, m: Tensor) -> _Affine | None:
    """Returns the match of y = x∘m + (β − μ∘m) or y = x∘m − μ∘m, or None."""
    taken = tower.subgraph.consumers(m)
    if len(taken) != 2 or any(use.op.type != "Mul" for use in taken):
        return None
    for of_x, of_mean in (taken, taken[::-1]):
        to_sum, ends = tower.only_consumer(of_x.op.outputs[0]), _shifted_mean(tower, of_mean)
        if to_sum is None or to_sum.op.type not in SUMS or ends is None:
            continue
        if to_sum.op.inputs[1 - to_sum.position] is not ends.offset:
            continue
        x, y = of_x.op.inputs[1 - of_x.position], to_sum.op.outputs[0]
        return _Affine(_normalize(x, ends.mean, s, y.op), y, ends.shift, (*ends.tensors, y))
    return None


class _Offset(NamedTuple):
    """The term added to x∘m in a normalization: β − μ∘m, or −μ∘m without a shift β.

    The match covers `tensors`.
    """

    offset: Tensor
    shift: Variable | None
    mean: Tensor
    tensors: tuple[Tensor, ...]


def _shifted_mean(tower: Tower, of_mean: Use) -> _Offset | None:
    """Returns the term added to x∘m, found by following μ∘m or −μ∘m."""
    mean, product = of_mean.op.inputs[1 - of_mean.position], of_mean.op.outputs[0]
    is_negative = mean.op.type == "Neg"
    mean = mean.op.inputs[0] if is_negative else mean
    use = tower.only_consumer(product)
    if use is None:
        return None
    is_sum = use.op.type in SUMS if is_negative else use.op.type == "Sub" and use.position == 1
    if not is_sum:
        return None
    other, offset = use.op.inputs[1 - use.position], use.op.outputs[0]
    shift = tower.variable_of(other)
    if shift is not None and _broadcasts(shift, other, offset, has_batch=False):
        return _Offset(offset, shift, mean, (other, offset))
    return _Offset(product, None, mean, ()) if is_negative else None


def _normalize(x: Tensor, mean: Tensor | int, s: Tensor, where: Operation) -> Callable[[], Tensor]:
    def make() -> Tensor:
        with v1.device(where.device):
            return (x - mean) * s

    return make


def _broadcasts(variable: Variable, value: Tensor, result: Tensor, has_batch: bool = True) -> bool:
    """Returns True if a use broadcasts a parameter to each example and keeps its shape."""
    if value.shape.rank is None or result.shape.rank is None:
        return False
    sizes, own = value.shape.as_list(), variable.shape.as_list()
    padding = len(sizes) - len(own)
    return (
        padding >= 0
        and sizes == [1] * padding + own
        and (len(own) < result.shape.rank or not has_batch)
        and len(sizes) <= result.shape.rank
    )


def match_fused_norm(tower: Tower, variable: Variable, use: Use) -> list[MatchRecord]:
    """Returns the scale and shift of a `FusedBatchNorm` of any version."""
    op = use.op
    scale, shift = (tower.variable_of(tensor) for tensor in op.inputs[1:3])
    if use.position not in {1, 2}:
        raise NotRegistrableError(f"is normalized by {op.name!r}")
    if scale is None:
        raise NotRegistrableError(f"is the shift in {op.name!r}, whose scale is not trained")
    if use.position == 2:
        return []
    data = {"inputs": lambda: _renormalized(op), "outputs": op.outputs[0]}
    alone = tower.match(RecordType.batch_norm, scale, use, data)
    return [alone] if shift is None else [alone, with_part(alone, shift, [op.inputs[2]], "")]


def _renormalized(op: Operation) -> Tensor:
    """Returns the result of a batch normalization with scale 1 and shift 0."""
    x, scale, _, *moments = op.inputs
    is_training = op.get_attr("is_training")
    shape = scale.shape.as_list()
    ones, zeros = (shared_constant(x, shape, scale.dtype, op.device) for x in (1, 0))
    unused = shared_constant(0, [0], scale.dtype, op.device)
    mean, variance = (unused, unused) if is_training else moments
    with v1.device(op.device):
        return tf.raw_ops.FusedBatchNormV3(
            x=x,
            scale=ones,
            offset=zeros,
            mean=mean,
            variance=variance,
            epsilon=op.get_attr("epsilon"),
            data_format=op.get_attr("data_format").decode(),
            is_training=is_training,
        ).y
