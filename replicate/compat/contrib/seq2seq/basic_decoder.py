"""A decoder that samples one sequence for each entry of the batch."""

import collections
from typing import Any

import tensorflow as tf

from replicate._types import Tensor
from replicate.compat.cells.checks import checked_cell
from replicate.compat.contrib.seq2seq.decoder import Decoder
from replicate.compat.contrib.seq2seq.helpers import Helper

v1 = tf.compat.v1

BasicDecoderOutput = collections.namedtuple("BasicDecoderOutput", ("rnn_output", "sample_id"))
"""Outputs of a `BasicDecoder`: those of the cell or of output_layer, and the sampled ids."""


class BasicDecoder(Decoder):
    """A decoder whose helper samples ids and gives the inputs."""

    def __init__(
        self, cell: Any, helper: Helper, initial_state: Any, output_layer: Any = None
    ) -> None:
        """Keeps the parts.

        Args:
          cell: A cell.
          helper: A helper.
          initial_state: First state of the cell.
          output_layer: A layer of tf.layers for the outputs, None for none.

        Raises:
          TypeError: It is no cell, no helper or no layer.
        """
        self._cell = checked_cell("BasicDecoder", cell)
        if not isinstance(helper, Helper):
            raise TypeError(f"BasicDecoder takes a Helper, got {type(helper).__name__}.")
        check_layer("BasicDecoder", output_layer)
        self._helper = helper
        self._initial_state = initial_state
        self._output_layer = output_layer

    @property
    def batch_size(self) -> Tensor:
        """Number of sequences."""
        return self._helper.batch_size

    @property
    def output_size(self) -> Any:
        """Sizes of the outputs."""
        size = output_size(self._cell, self._output_layer)
        return BasicDecoderOutput(size, self._helper.sample_ids_shape)

    @property
    def output_dtype(self) -> Any:
        """Types of the outputs: that of the state, and that of the ids."""
        dtype = tf.nest.flatten(self._initial_state)[0].dtype
        sizes = output_size(self._cell, self._output_layer)
        of_outputs = tf.nest.map_structure(lambda _: dtype, sizes)
        return BasicDecoderOutput(of_outputs, self._helper.sample_ids_dtype)

    def initialize(self, name: str | None = None) -> tuple[Tensor, Any, Any]:
        """Returns (finished [batch], first inputs, first state)."""
        return (*self._helper.initialize(), self._initial_state)

    def step(
        self, time: Tensor, inputs: Any, state: Any, name: str | None = None
    ) -> tuple[Any, Any, Any, Tensor]:
        """Makes a step; arguments and results are those of `Decoder`."""
        with v1.name_scope(name, "BasicDecoderStep", [time]):
            outputs, cell_state = self._cell(inputs, state)
            if self._output_layer is not None:
                outputs = self._output_layer(outputs)
            ids = self._helper.sample(time=time, outputs=outputs, state=cell_state)
            finished, next_inputs, next_state = self._helper.next_inputs(
                time=time, outputs=outputs, state=cell_state, sample_ids=ids
            )
        return BasicDecoderOutput(outputs, ids), next_state, next_inputs, finished


def check_layer(decoder: str, layer: Any) -> None:
    """Refuses what is no layer.

    Raises:
      TypeError: It is neither.
    """
    if layer is not None and not (callable(layer) and hasattr(layer, "compute_output_shape")):
        raise TypeError(f"{decoder} takes a layer of tf.layers as output_layer, got {layer!r}.")


def output_size(cell: Any, layer: Any) -> Any:
    """Returns the size of a cell's outputs, of a layer's if there is one."""
    if layer is None:
        return cell.output_size
    batch = tf.TensorShape([None])
    return tf.nest.map_structure(
        lambda size: layer.compute_output_shape(batch.concatenate(size))[1:], cell.output_size
    )
