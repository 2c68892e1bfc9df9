"""Plans of registration: the layer that some parameters form, and the tensors around it.

A plan is made from matches in the graph before anything is registered. Later it registers its layer
in a layer table. Made by `kfac.graph_search.registration` and by the scanner.
"""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, final

import tensorflow as tf

from kfac._types import Parameters, Scalar, Tensor
from kfac.registration.convolutions import register_conv2d_multi
from kfac.registration.dense_layers import (
    register_fully_connected,
    register_fully_connected_multi,
    register_generic,
)
from kfac.registration.layer_table import LayerTable

v1 = tf.compat.v1

TensorSource = Tensor | Callable[[], Tensor]
"""A tensor of the graph, or a function that makes it."""


class Folded(NamedTuple):
    """A tensor [..., size] to be reshaped to [rows, size]; or ids, of no size, to [rows]."""

    tensor: TensorSource
    size: int | None


class CountedUses(NamedTuple):
    """The number of uses of a layer as a tensor: rows of its inputs, in all places, per example."""

    inputs: tuple[Folded, ...]
    batch_size: Scalar


@final
class PlannedTensors:
    """Makes the tensors that the plans of one tower need; folds each tensor only once."""

    def __init__(self) -> None:
        self._folded: dict[Any, Tensor] = {}

    def get(self, source: TensorSource) -> Tensor:
        """Returns a tensor; calls its function if it is given as one."""
        if not callable(source):
            return source
        with v1.name_scope("kfac/scanned/"):
            return source()

    def fold(self, folded: Folded) -> Tensor:
        """Returns a tensor [rows, size], or [rows] for ids."""
        source, size = folded
        key = source if callable(source) else source.ref(), size
        if key not in self._folded:
            with v1.name_scope("kfac/scanned/"):
                self._folded[key] = _folded(self.get(source), size)
        return self._folded[key]

    def count(self, uses: int | CountedUses) -> Scalar:
        """Returns a number of uses, given or to be computed: an int or an int Tensor []."""
        if isinstance(uses, int):
            return uses
        inputs = [self.fold(folded) for folded in uses.inputs]
        with v1.name_scope("kfac/scanned/"):
            rows = tf.add_n([tf.shape(tensor)[0] for tensor in inputs])
            return rows // tf.cast(uses.batch_size, rows.dtype)


def _folded(tensor: Tensor, size: int | None) -> Tensor:
    rank = 1 if size is None else 2
    if tensor.shape.rank == rank and (size is None or tensor.shape[-1] == size):
        return tensor
    with v1.device(tensor.device):
        return tf.reshape(tensor, [-1] if size is None else [-1, size])


class Plan(Protocol):
    """A way to register the parameters of one layer."""

    def register(
        self, layers: LayerTable, params: Parameters, reuse: bool | str, tensors: PlannedTensors
    ) -> None:
        """Registers the layer, or one more tower of it."""


@final
@dataclasses.dataclass(frozen=True)
class DensePlan:
    """A dense layer or an embedding that is applied in one place, once per example.

    The inputs of an embedding are ids, not dense.
    """

    inputs: Folded
    outputs: TensorSource
    dense_inputs: bool

    def register(
        self, layers: LayerTable, params: Parameters, reuse: bool | str, tensors: PlannedTensors
    ) -> None:
        """Registers the layer; see `Plan`."""
        inputs, outputs = tensors.fold(self.inputs), tensors.get(self.outputs)
        register_fully_connected(
            layers, params, inputs, outputs, dense_inputs=self.dense_inputs, reuse=reuse
        )


@final
@dataclasses.dataclass(frozen=True)
class RepeatedDensePlan:
    """A dense layer or an embedding with several uses: inputs and outputs in each of its places.

    `num_uses` counts the uses in all places together. If `unordered`, uses and examples are rows in
    any order.
    """

    inputs: Sequence[Folded]
    outputs: Sequence[TensorSource]
    dense_inputs: bool
    num_uses: int | CountedUses
    unordered: bool

    def register(
        self, layers: LayerTable, params: Parameters, reuse: bool | str, tensors: PlannedTensors
    ) -> None:
        """Registers the layer; see `Plan`."""
        register_fully_connected_multi(
            layers,
            params,
            _single_or_list([tensors.fold(folded) for folded in self.inputs]),
            _single_or_list([tensors.get(output) for output in self.outputs]),
            tensors.count(self.num_uses),
            dense_inputs=self.dense_inputs,
            reuse=reuse,
            unordered=self.unordered,
        )


@final
@dataclasses.dataclass(frozen=True)
class SinglePlan:
    """A layer in one place, with all arguments of the function that registers it.

    `settings` are those other than tensors, such as the geometry of a convolution.
    """

    function: Callable[..., None]
    inputs: TensorSource
    outputs: TensorSource
    settings: Mapping[str, Any]

    def register(
        self, layers: LayerTable, params: Parameters, reuse: bool | str, tensors: PlannedTensors
    ) -> None:
        """Registers the layer; see `Plan`."""
        inputs, outputs = tensors.get(self.inputs), tensors.get(self.outputs)
        self.function(layers, params, inputs=inputs, outputs=outputs, reuse=reuse, **self.settings)


@final
@dataclasses.dataclass(frozen=True)
class RepeatedConvPlan:
    """A two-dimensional convolution with several uses: inputs and outputs in each of its places.

    `num_uses` counts the uses in all places together. `geometry` has strides, padding, data format
    and dilations.
    """

    inputs: Sequence[TensorSource]
    outputs: Sequence[TensorSource]
    num_uses: int
    geometry: Mapping[str, Any]

    def register(
        self, layers: LayerTable, params: Parameters, reuse: bool | str, tensors: PlannedTensors
    ) -> None:
        """Registers the layer; see `Plan`."""
        register_conv2d_multi(
            layers,
            params,
            inputs=_single_or_list([tensors.get(source) for source in self.inputs]),
            outputs=_single_or_list([tensors.get(source) for source in self.outputs]),
            num_uses=self.num_uses,
            reuse=reuse,
            **self.geometry,
        )


@final
@dataclasses.dataclass(frozen=True)
class GenericPlan:
    """A parameter that belongs to no known layer."""

    batch_size: Scalar

    def register(
        self, layers: LayerTable, params: Parameters, reuse: bool | str, tensors: PlannedTensors
    ) -> None:
        """Registers the parameter; see `Plan`."""
        register_generic(layers, params, self.batch_size, reuse=reuse)


def _single_or_list(tensors: list[Tensor]) -> Tensor | list[Tensor]:
    return tensors if len(tensors) > 1 else tensors[0]
