"""Registers matches in a layer collection, as the layers that they look like.

Several matches of the same parameters are one layer that is applied several times. One table maps
each kind of match to the function that plans it. Called by the scanner.
"""

import types
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from kfac._types import Parameters, Scalar, Variable
from kfac.fisher_blocks.base import FisherBlock, as_tuple
from kfac.graph_search.layer_uses import Batch, Place, has_unknown_uses, uses_by_place
from kfac.graph_search.plans import (
    CountedUses,
    Folded,
    Plan,
    PlannedTensors,
)
from kfac.graph_search.records import (
    MatchRecord,
    NotRegistrableError,
    Records,
    RecordType,
    place_of,
)
from kfac.graph_search.weight_sharing import plan_shared, plan_tied
from kfac.registration.convolutions import (
    register_conv2d,
    register_conv2d_multi,
    register_convolution,
    register_depthwise_conv2d,
)
from kfac.registration.dense_layers import register_fully_connected, register_fully_connected_multi
from kfac.registration.layer_table import LayerTable, parameter_names
from kfac.registration.scale_shift import register_scale_and_shift


class HasLayers(Protocol):
    """A layer collection that layers can be registered in."""

    layer_table: LayerTable

    def auto_register_layers(
        self, var_list: Sequence[Variable] | None = None, batch_size: Scalar | None = None
    ) -> dict[Parameters, FisherBlock]:
        """Registers layers; see `LayerCollection.auto_register_layers`."""


def register_records(
    layer_collection: HasLayers,
    record_list_dict: Records,
    reuse: bool | str = False,
    batch_size: Scalar | None = None,
) -> dict[Parameters, FisherBlock]:
    """Registers matches, in the order of the names of their parameters.

    Args:
      layer_collection: Layer collection to register the matches in.
      record_list_dict: Matches by parameter or tuple of parameters, no parameter in two keys.
      reuse: As in all functions that register a layer.
      batch_size: Number of examples; None reads it from the first axis.

    Returns:
      The blocks of these layers by their parameters.

    Raises:
      ValueError: Matches of the same parameters are of several kinds, or of a kind that can be
        applied only once; the batch size does not divide the rows; or as in the functions that
        register layers.
    """
    batch = Batch(batch_size, batch_size is not None)
    plans = {
        key: plan_registration(key, record_list_dict[key], batch)
        for key in sorted(record_list_dict, key=place_of)
    }
    layers = layer_collection.layer_table
    register_plans(layers, plans, reuse)
    return {key: layers.blocks[key] for key in plans}


def register_plans(layers: LayerTable, plans: Mapping[Parameters, Plan], reuse: bool | str) -> None:
    """Registers planned layers, in the order of the plans."""
    tensors = PlannedTensors()
    for params, plan in plans.items():
        plan.register(layers, params, reuse, tensors)


def plan_registration(params: Parameters, records: Sequence[MatchRecord], batch: Batch) -> Plan:
    """Returns the plan of a layer, from its matches in the order in which the graph was built.

    Raises:
      ValueError: Matches are of several kinds, or of a kind that can be applied only once, or the
        batch size does not divide the rows.
      NotRegistrableError: The layer cannot be registered as what it looks like; the message says
        why.
    """
    kinds = {record.record_type for record in records}
    if RecordType.tied in kinds:
        return plan_tied(records, batch.static)
    if len(kinds) > 1:
        raise ValueError(
            f"Cannot register {parameter_names(params)} automatically: mixed record types, namely "
            f"{', '.join(sorted(kind.value for kind in kinds))}. A parameter can be used in one "
            "kind of layer only; register_generic it before."
        )
    return _PLANS[records[0].record_type](params, records, batch)


def _dense(params: Parameters, records: Sequence[MatchRecord], batch: Batch) -> Plan:
    """Returns the plan of a dense layer or an embedding, applied once or several times."""
    is_embedding = records[0].record_type is RecordType.embedding
    shared = plan_shared(params, records, batch.static, is_embedding)
    if shared is not None:
        return shared
    size = None if is_embedding else as_tuple(params)[0].shape[:-1].num_elements()
    if size is not None and isinstance(params, tuple):
        # A weight with several axes of outputs has a bias with as many entries.
        size = as_tuple(params)[0].shape.num_elements() // params[1].shape.num_elements()
    places = [Place(_leading(record), record.description) for record in records]
    inputs = [Folded(record.data["inputs"], size) for record in records]
    uses = _uses(places, inputs, batch)
    outputs = [record.data["outputs"] for record in records]
    settings = {"dense_inputs": not is_embedding}
    if len(records) == 1 and uses == 1 and outputs[0].shape.rank <= 2:
        return Plan(register_fully_connected, inputs, outputs, settings)
    unordered = any(len(p.leading) > 1 for p in places) or _has_unknown_split(places, uses)
    settings["unordered"] = unordered
    return Plan(register_fully_connected_multi, inputs, outputs, settings, uses)


def _uses(places: Sequence[Place], inputs: Sequence[Folded], batch: Batch) -> int | CountedUses:
    """Returns the number of times a dense layer is applied to an example, over all its places."""
    if not any(has_unknown_uses(place.leading) for place in places):
        return sum(uses_by_place(places, batch))
    if batch.size is None:
        raise NotRegistrableError(
            f"is applied in {places[0].what} to inputs with several unknown sizes, and the "
            "number of examples is unknown; pass batch_size"
        )
    return CountedUses(tuple(inputs), batch.size)


def _has_unknown_split(places: Sequence[Place], uses: int | CountedUses) -> bool:
    """Returns True if some of several places have several uses, and some an unknown size."""
    is_static = all(None not in place.leading for place in places)
    return len(places) > 1 and uses != len(places) and not is_static


def _leading(record: MatchRecord) -> Sequence[int | None]:
    sizes: list[int | None] | None = record.data.get("leading")
    if sizes is not None:
        return sizes
    sizes = record.data["inputs"].shape.as_list()
    return sizes if record.record_type is RecordType.embedding else sizes[:-1]


def _convolution(params: Parameters, records: Sequence[MatchRecord], batch: Batch) -> Plan:
    """Returns the plan of a convolution; a two-dimensional one may be applied several times."""
    places = [_place_of_rows(record) for record in records]
    uses = uses_by_place(places, batch)
    first = records[0]
    is_2d = first.record_type is RecordType.conv2d
    if uses == [1]:
        return _single(register_conv2d if is_2d else register_convolution, first)
    geometries = [_settings(record) for record in records]
    if not is_2d or any(geometry != geometries[0] for geometry in geometries):
        raise NotRegistrableError(
            f"is the filter of {sum(uses)} convolutions, which are not two-dimensional with the "
            "same strides, padding and dilations"
        )
    images = [record.data["inputs"].shape[1:] for record in records]
    if not all(image.is_compatible_with(images[0]) for image in images):
        raise NotRegistrableError(
            f"is the filter of {len(records)} convolutions of images of several sizes"
        )
    if _has_unknown_split(places, sum(uses)):
        raise NotRegistrableError(
            f"is the filter of {len(records)} convolutions with {sum(uses)} uses, some of them of "
            "an unknown number of images"
        )
    inputs, outputs = ([r.data[name] for r in records] for name in ("inputs", "outputs"))
    return Plan(register_conv2d_multi, inputs, outputs, geometries[0], sum(uses))


def _single(function: Callable[..., None], record: MatchRecord) -> Plan:
    inputs, outputs = record.data["inputs"], record.data["outputs"]
    return Plan(function, [inputs], [outputs], _settings(record))


def _settings(record: MatchRecord) -> dict[str, Any]:
    """Returns the arguments of a match other than its tensors, such as strides."""
    return {k: v for k, v in record.data.items() if k not in {"inputs", "outputs"}}


def _depthwise(params: Parameters, records: Sequence[MatchRecord], batch: Batch) -> Plan:
    """Returns the plan of a depthwise convolution, which is applied once."""
    uses = sum(uses_by_place([_place_of_rows(record) for record in records], batch))
    if uses > 1:
        raise NotRegistrableError(f"is the filter of a depthwise convolution, {uses} times")
    return _single(register_depthwise_conv2d, records[0])


def _scale_and_shift(params: Parameters, records: Sequence[MatchRecord], batch: Batch) -> Plan:
    """Returns the plan of a scale and shift, which is applied once."""
    if len(records) > 1 and records[0].record_type is RecordType.batch_norm:
        raise NotRegistrableError(f"scales and shifts {len(records)} tensors")
    if len(records) > 1:
        raise ValueError(
            f"Cannot register {parameter_names(params)} automatically: it scales and shifts "
            f"{len(records)} tensors. A scale can be applied only once; register_generic its "
            "parameters before."
        )
    (uses,) = uses_by_place([_place_of_rows(records[0])], batch)
    if uses > 1:
        raise NotRegistrableError(f"scales {uses} rows of an example")
    return _single(register_scale_and_shift, records[0])


def _place_of_rows(record: MatchRecord) -> Place:
    """Returns a place of a layer whose examples have several axes, such as images."""
    return Place(record.data["outputs"].shape.as_list()[:1], record.description)


_PLANS: Mapping[RecordType, Callable[[Parameters, Sequence[MatchRecord], Batch], Plan]] = (
    types.MappingProxyType(
        {
            RecordType.fully_connected: _dense,
            RecordType.embedding: _dense,
            RecordType.conv2d: _convolution,
            RecordType.convolution: _convolution,
            RecordType.depthwise_conv2d: _depthwise,
            RecordType.scale_and_shift: _scale_and_shift,
            RecordType.batch_norm: _scale_and_shift,
        }
    )
)
