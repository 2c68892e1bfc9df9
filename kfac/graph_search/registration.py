"""Registers matches in a layer collection, as the layers that they look like.

Several matches of the same parameters are one layer that is applied several times. Which method
registers what is in one table. Called by the scanner.
"""

import types
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from kfac._types import Parameters, Scalar, Tensor
from kfac.fisher_blocks.base import FisherBlock, as_tuple
from kfac.graph_search.records import (
    MatchRecord,
    NotRegistrableError,
    Records,
    RecordType,
    names_of,
)
from kfac.graph_search.uses import Batch, Place, has_unknown_uses, uses_by_place
from kfac.registration.convolutions import ConvRegistration
from kfac.registration.dense_layers import DenseRegistration

v1 = tf.compat.v1


class LayerRegistration(DenseRegistration, ConvRegistration):
    """All methods that register layers."""


class Plan(NamedTuple):
    """How one layer is to be registered.

    Attributes:
      method: Name of the method.
      arguments: What it is called with, beside `params` and `reuse`; functions make the argument.
    """

    method: str
    arguments: Mapping[str, Any]


def register_records(
    layer_collection: LayerRegistration,
    record_list_dict: Records,
    reuse: bool | str = False,
    batch_size: Scalar | None = None,
) -> dict[Parameters, FisherBlock]:
    """Registers matches, in the order of the names of their parameters.

    Args:
      layer_collection: Where to register them.
      record_list_dict: Matches by parameter or tuple of parameters, no parameter in two keys.
      reuse: As in all methods that register a layer.
      batch_size: Number of examples; None means that the first axis tells.

    Returns:
      The blocks of these layers by their parameters.

    Raises:
      ValueError: Matches of the same parameters are of several kinds, or of a kind that can be
        applied only once; the batch size does not divide the rows; or as in the methods.
    """
    batch = Batch(batch_size, batch_size is not None)
    plans = {
        key: plan_registration(key, record_list_dict[key], batch)
        for key in sorted(record_list_dict, key=names_of)
    }
    carry_out(layer_collection, plans, reuse)
    return {key: layer_collection.fisher_blocks[key] for key in plans}


def carry_out(
    layer_collection: LayerRegistration, plans: Mapping[Parameters, Plan], reuse: bool | str
) -> None:
    """Registers what was planned.

    Args:
      layer_collection: Where to register it.
      plans: How, by parameter or tuple of parameters.
      reuse: As in all methods that register a layer.
    """
    made: dict[Any, Tensor] = {}
    for params, plan in plans.items():
        with v1.name_scope("kfac/scanned/"):
            arguments = {name: _made(value, made) for name, value in plan.arguments.items()}
        getattr(layer_collection, plan.method)(params, reuse=reuse, **arguments)


class Folded(NamedTuple):
    """A tensor [..., size] that is to be made [rows, size].

    Attributes:
      tensor: The tensor, or a function that makes it.
      size: Of the last axis; None for ids, which are to be made [rows].
    """

    tensor: Tensor | Callable[[], Tensor]
    size: int | None

    def make(self, made: dict[Any, Tensor]) -> Tensor:
        """Returns the tensor, the same for the same arguments."""
        key = self.tensor if callable(self.tensor) else self.tensor.ref(), self.size
        if key not in made:
            made[key] = self._folded(self.tensor() if callable(self.tensor) else self.tensor)
        return made[key]

    def _folded(self, tensor: Tensor) -> Tensor:
        rank = 1 if self.size is None else 2
        if tensor.shape.rank == rank and (self.size is None or tensor.shape[-1] == self.size):
            return tensor
        with v1.device(tensor.device):
            return tf.reshape(tensor, [-1] if self.size is None else [-1, self.size])


class CountedUses(NamedTuple):
    """The number of uses of a layer as a tensor.

    Attributes:
      inputs: What enters the layer.
      batch_size: Number of examples.
    """

    inputs: tuple[Folded, ...]
    batch_size: Scalar

    def make(self, made: dict[Any, Tensor]) -> Tensor:
        """Returns rows per example, int []."""
        rows = tf.add_n([tf.shape(folded.make(made))[0] for folded in self.inputs])
        return rows // tf.cast(self.batch_size, rows.dtype)


def _made(value: Any, made: dict[Any, Tensor]) -> Any:
    if isinstance(value, (Folded, CountedUses)):
        return value.make(made)
    if isinstance(value, list):
        return [_made(entry, made) for entry in value]
    return value() if callable(value) else value


# What to register.


def plan_registration(params: Parameters, records: Sequence[MatchRecord], batch: Batch) -> Plan:
    """Returns how to register a layer.

    Args:
      params: Its parameter, or a tuple of them.
      records: Its matches, in the order in which the graph was built.
      batch: How many examples there are.

    Raises:
      ValueError: Matches are of several kinds, or of a kind that can be applied only once, or the
        batch size does not divide the rows.
      NotRegistrableError: The layer cannot be registered as what it looks like; says why.
    """
    kinds = {record.record_type for record in records}
    name = ", ".join(names_of(params))
    if len(kinds) > 1:
        raise ValueError(
            f"Cannot register ({name}) automatically: mixed record types, namely "
            f"{', '.join(sorted(kind.value for kind in kinds))}. A parameter can be used in one "
            "kind of layer only; register_generic it before."
        )
    return _PLANS[records[0].record_type](params, records, batch)


def _dense(params: Parameters, records: Sequence[MatchRecord], batch: Batch) -> Plan:
    """A dense layer or an embedding, once or several times."""
    is_embedding = records[0].record_type is RecordType.embedding
    size = None if is_embedding else as_tuple(params)[0].shape[:-1].num_elements()
    if size is not None and isinstance(params, tuple):
        # A weight with several axes of outputs has a bias with as many entries.
        size = as_tuple(params)[0].shape.num_elements() // params[1].shape.num_elements()
    places = [Place(_leading(record), record.description) for record in records]
    inputs = [Folded(record.data["inputs"], size) for record in records]
    uses = _uses(places, inputs, batch)
    outputs = [record.data["outputs"] for record in records]
    kind = {"dense_inputs": False} if is_embedding else {}
    is_single = len(records) == 1
    if is_single and uses == 1 and outputs[0].shape.rank <= 2:
        return Plan(
            "register_fully_connected", {"inputs": inputs[0], "outputs": outputs[0], **kind}
        )
    arguments = {
        "inputs": inputs[0] if is_single else inputs,
        "outputs": outputs[0] if is_single else outputs,
        "num_uses": uses,
        "unordered": any(len(p.leading) > 1 for p in places) or _has_unknown_split(places, uses),
        **kind,
    }
    return Plan("register_fully_connected_multi", arguments)


def _uses(places: Sequence[Place], inputs: Sequence[Folded], batch: Batch) -> int | CountedUses:
    """Returns how often a dense layer is applied to an example, in all its places together."""
    if not any(has_unknown_uses(place.leading) for place in places):
        return sum(uses_by_place(places, batch))
    if batch.size is None:
        raise NotRegistrableError(
            f"is applied in {places[0].what} to inputs with several unknown sizes, and the "
            "number of examples is unknown; pass batch_size"
        )
    return CountedUses(tuple(inputs), batch.size)


def _has_unknown_split(places: Sequence[Place], uses: int | CountedUses) -> bool:
    """Returns whether some of several places have several uses, and some an unknown size."""
    is_static = all(None not in place.leading for place in places)
    return len(places) > 1 and uses != len(places) and not is_static


def _leading(record: MatchRecord) -> Sequence[int | None]:
    sizes: list[int | None] | None = record.data.get("leading")
    if sizes is not None:
        return sizes
    sizes = record.data["inputs"].shape.as_list()
    return sizes if record.record_type is RecordType.embedding else sizes[:-1]


def _convolution(params: Parameters, records: Sequence[MatchRecord], batch: Batch) -> Plan:
    """A convolution; a two-dimensional one also several times."""
    places = [_place_of_rows(record) for record in records]
    uses = uses_by_place(places, batch)
    first = records[0]
    is_2d = first.record_type is RecordType.conv2d
    if uses == [1]:
        return Plan("register_conv2d" if is_2d else "register_convolution", first.data)
    geometries = [_geometry(record) for record in records]
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
    arguments = {
        "inputs": inputs if len(records) > 1 else inputs[0],
        "outputs": outputs if len(records) > 1 else outputs[0],
        "num_uses": sum(uses),
        **geometries[0],
    }
    return Plan("register_conv2d_multi", arguments)


def _geometry(record: MatchRecord) -> dict[str, Any]:
    return {k: v for k, v in record.data.items() if k not in {"inputs", "outputs"}}


def _depthwise(params: Parameters, records: Sequence[MatchRecord], batch: Batch) -> Plan:
    """A depthwise convolution that is applied once."""
    uses = sum(uses_by_place([_place_of_rows(record) for record in records], batch))
    if uses > 1:
        raise NotRegistrableError(f"is the filter of a depthwise convolution, {uses} times")
    return Plan("register_depthwise_conv2d", records[0].data)


def _scale_and_shift(params: Parameters, records: Sequence[MatchRecord], batch: Batch) -> Plan:
    """Scale and shift that is applied once."""
    if len(records) > 1 and records[0].record_type is RecordType.batch_norm:
        raise NotRegistrableError(f"scales and shifts {len(records)} tensors")
    if len(records) > 1:
        raise ValueError(
            f"Cannot register ({', '.join(names_of(params))}) automatically: it scales and shifts "
            f"{len(records)} tensors. A scale can be applied only once; register_generic its "
            "parameters before."
        )
    (uses,) = uses_by_place([_place_of_rows(records[0])], batch)
    if uses > 1:
        raise NotRegistrableError(f"scales {uses} rows of an example")
    return Plan("register_scale_and_shift", records[0].data)


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
