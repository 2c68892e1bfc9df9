"""Plans layers whose weight is shared along positions, with "kron_expand" or "kron_reduce".

Only layers that are asked to have one of these approximations, by name or by default, are planned
here. Called by the matchers, which ask for the approximation of a weight, and by registration.
"""

import functools
from collections.abc import Sequence
from typing import Any, final

import tensorflow as tf

from kfac._types import Parameters, Tensor, Variable
from kfac.graph_search.plans import Plan, TensorSource
from kfac.graph_search.records import MatchRecord, NotRegistrableError, RecordType
from kfac.loss_functions.base import LossFunction
from kfac.registration.approximations import APPROX_KRONECKER_REDUCE_NAME, SHARING
from kfac.registration.layer_table import LayerTable, parameter_names
from kfac.registration.weight_sharing import register_positionwise, register_tied_embedding

v1 = tf.compat.v1


@final
class Sharing:
    """The approximations of shared weights in a tower, and the positions that count there.

    `mask` is [batch, positions], or with more axes, false or zero at those that do not count; None
    means those whose loss has no weight. Nothing is added to the graph unless a weight is shared.
    """

    def __init__(
        self, layers: LayerTable, losses: Sequence[LossFunction], mask: Tensor | None
    ) -> None:
        self._layers = layers
        self._losses = losses
        self._given = mask

    @functools.cached_property
    def _mask(self) -> Tensor | None:
        if self._given is None:
            return counted_positions(self._losses)
        with v1.name_scope("kfac/scanned/"):
            return tf.cast(self._given, tf.bool)

    def of(self, variable: Variable) -> dict[str, Any]:
        """Returns what a match of a dense layer or an embedding notes of its weight.

        That is nothing unless it is to have an approximation of this module.
        """
        linked = [
            approx
            for group, approx in self._layers.linked_parameters.items()
            if approx is not None and any(p.ref() == variable.ref() for p in group)
        ]
        chosen = (*linked, self._layers.defaults["fully_connected_multi"])[0]
        return {"sharing": chosen, "mask": self._mask} if chosen in SHARING else {}


def counted_positions(losses: Sequence[LossFunction]) -> Tensor | None:
    """Returns bool [batch, positions], true where a loss has a weight that is not zero.

    Returns None unless exactly one loss has weights of positions.
    """
    found: list[tuple[Any, bool]] = []
    for loss in losses:
        rank = tf.nest.flatten(loss.inputs)[0].shape.rank
        weights = None if loss.weights is None else tf.convert_to_tensor(loss.weights)
        given = None if weights is None else weights.shape.rank
        if rank is not None and given is not None and rank > 2 <= given:
            found.append((weights, given == rank))
    if len(found) != 1:
        return None
    ((weights, is_by_entry),) = found
    with v1.name_scope("kfac/scanned/"), v1.device(weights.device):
        counts = tf.not_equal(tf.cast(weights, tf.float32), 0)
        return tf.reduce_any(counts, axis=-1) if is_by_entry else counts


def plan_shared(
    params: Parameters, records: Sequence[MatchRecord], examples: int | None, is_embedding: bool
) -> Plan | None:
    """Returns the plan of a layer that is registered along positions, or None.

    None is for layers that any other plan registers as well: by "kron_expand" without a mask, or of
    a single position. `examples` is the number of examples in the tower if it is static.

    Raises:
      ValueError: The layer is to have "kron_reduce", or outputs of several axes, and its inputs do
        not tell which rows are the positions of an example.
    """
    approx = records[0].data.get("sharing")
    if approx is None:
        return None
    first, *others = (record.data["leading"] for record in records)
    masks = [_mask_of(record) for record in records]
    is_masked = all(mask is not None for mask in masks)
    is_single = not others and len(first) == 1 and first[0] in {None, examples}
    has_several_axes = bool(records[0].data.get("output_axes"))
    needs = (approx == APPROX_KRONECKER_REDUCE_NAME and not is_single) or has_several_axes
    if not needs and not is_masked:
        return None
    unclear = [record for record in records if not _is_first(record.data["leading"], examples)]
    if unclear:
        if not needs:
            return None
        raise ValueError(
            f"Cannot register {parameter_names(params)} automatically with {approx=}: it is "
            f"applied in {unclear[0].description} to inputs with the axes "
            f"{unclear[0].data['leading']} before the features, and there are {examples} examples. "
            "The first axis must be that of examples, and one size at most unknown. Use "
            "'kron_expand', or register the layer by hand with register_positionwise."
        )
    inputs = [_unfolded(record, is_embedding) for record in records]
    outputs = [record.data["outputs"] for record in records]
    settings = {"dense_inputs": not is_embedding, "approx": approx}
    return Plan(register_positionwise, inputs, outputs, settings, masks=masks if is_masked else ())


def plan_tied(records: Sequence[MatchRecord], examples: int | None) -> Plan:
    """Returns the plan of an embedding whose table is the weight of the output layer, too.

    Raises:
      NotRegistrableError: There is another use of the table, or the first axis of the ids is not
        that of the examples.
    """
    by_kind = {record.record_type: record for record in records}
    lookup, product = (by_kind.get(kind) for kind in (RecordType.embedding, RecordType.tied))
    if lookup is None or product is None or len(records) != 2:
        raise NotRegistrableError(
            "is transposed in a product; a weight must be [inputs, outputs], or be looked up once "
            "and be multiplied once as that of the output layer"
        )
    if not _is_first(lookup.data["leading"], examples):
        raise NotRegistrableError(
            f"is looked up in {lookup.description} by ids whose first axis is not that of the "
            "examples"
        )
    both = lookup, product
    inputs, outputs = ([record.data[name] for record in both] for name in ("inputs", "outputs"))
    return Plan(register_tied_embedding, inputs, outputs, {})


def _is_first(leading: Sequence[int | None], examples: int | None) -> bool:
    """Returns True if the first of a layer's axes can be that of the examples."""
    first, *positions = leading
    if examples is not None and first is not None:
        return first == examples
    return first is None or None not in positions


def _mask_of(record: MatchRecord) -> TensorSource | None:
    """Returns the mask of a layer's positions, if they can be those that the mask is of."""
    leading, mask = record.data["leading"], record.data["mask"]
    if mask is None or len(leading) < 2 or not mask.shape.is_compatible_with(leading):
        return None
    known = zip(mask.shape.as_list()[1:], leading[1:], strict=True)
    if all(None not in pair for pair in known):
        return mask
    outputs = record.data["outputs"]
    if outputs.shape.rank != len(leading) + 1:
        return None

    def where_equal() -> Tensor:
        """Returns the mask, or true everywhere if the layer has another number of positions."""
        shape = tf.shape(outputs)[:-1]
        is_same = tf.reduce_all(tf.equal(shape, tf.shape(mask)))
        return tf.cond(is_same, lambda: mask, lambda: tf.ones(shape, tf.bool))

    return where_equal


def _unfolded(record: MatchRecord, is_embedding: bool) -> TensorSource:
    """Returns inputs with all their axes of examples and positions."""
    source, leading = record.data["inputs"], record.data["leading"]
    features = int(not is_embedding)
    if not callable(source) and source.shape.rank == len(leading) + features:
        return source
    sizes = [-1 if size is None else size for size in leading]

    def unfolded() -> Tensor:
        tensor = source() if callable(source) else source
        with v1.device(tensor.device):
            return tf.reshape(tensor, [*sizes, *tensor.shape.as_list()[1:]] if features else sizes)

    return unfolded
