"""Plans of registration: the layer that some parameters form, and the tensors around it.

A plan is made from matches in the graph before anything is registered. Later it registers its layer
in a layer table. Made by `kfac.graph_search.registration` and by the scanner.
"""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, final

import tensorflow as tf

from kfac._types import Parameters, Scalar, Tensor
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

    def get(self, source: TensorSource | Folded) -> Tensor:
        """Returns a tensor; folds it, or calls its function if it is given as one."""
        if isinstance(source, Folded):
            return self.fold(source)
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


@final
@dataclasses.dataclass(frozen=True)
class Plan:
    """A layer, with all arguments of the function that registers it, such as `register_conv2d`.

    Inputs and outputs are those in each place where the layer is applied. `settings` are the other
    arguments, such as the geometry of a convolution. `num_uses`, of functions that ask for it,
    counts the uses in all places together; `masks`, of such functions, are those of all places.
    A parameter that belongs to no known layer has no places.
    """

    function: Callable[..., None]
    inputs: Sequence[TensorSource | Folded]
    outputs: Sequence[TensorSource]
    settings: Mapping[str, Any]
    num_uses: int | CountedUses | None = None
    masks: Sequence[TensorSource | None] = ()

    def register(
        self, layers: LayerTable, params: Parameters, reuse: bool | str, tensors: PlannedTensors
    ) -> None:
        """Registers the layer, or one more tower of it."""
        arguments = dict(self.settings)
        for name, sources in (("inputs", self.inputs), ("outputs", self.outputs)):
            found = [tensors.get(source) for source in sources]
            if found:
                arguments[name] = found if len(found) > 1 else found[0]
        if self.masks:
            arguments["mask"] = [tensors.get(mask) for mask in self.masks if mask is not None]
        if self.num_uses is not None:
            arguments["num_uses"] = tensors.count(self.num_uses)
        self.function(layers, params, reuse=reuse, **arguments)
