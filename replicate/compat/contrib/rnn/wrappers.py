"""Wrappers of cells: a linear map of the inputs or outputs, and embeddings."""

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from replicate._types import Tensor
from replicate.compat.cells.base import RNNCell
from replicate.compat.cells.checks import checked_cell
from replicate.compat.cells.linear import linear

v1 = tf.compat.v1


class _Wrapper(RNNCell):
    """A cell around another one."""

    def __init__(self, cell: Any, reuse: bool | None) -> None:
        super().__init__(_reuse=reuse)
        self._cell = checked_cell(type(self).__name__, cell)

    @property
    def state_size(self) -> Any:
        """Size of the cell's state."""
        return self._cell.state_size

    @property
    def output_size(self) -> Any:
        """Size of the cell's output."""
        return self._cell.output_size

    def zero_state(self, batch_size: Any, dtype: Any) -> Any:
        """Returns the zero state of the cell."""
        with tf.name_scope(f"{type(self).__name__}ZeroState"):
            return self._cell.zero_state(batch_size, dtype)


class OutputProjectionWrapper(_Wrapper):
    """A linear map of a cell's outputs. Variables: kernel [cell's output, output], bias."""

    def __init__(
        self,
        cell: Any,
        output_size: int,
        activation: Callable[[Tensor], Tensor] | None = None,
        reuse: bool | None = None,
    ) -> None:
        """Keeps the settings: the size of the outputs, and their activation, None for none.

        Raises:
          TypeError: It is no cell.
          ValueError: The size is less than 1.
        """
        super().__init__(cell, reuse)
        _check_size("OutputProjectionWrapper", "output_size", output_size)
        self._output_size = output_size
        self._activation = activation

    @property
    def output_size(self) -> int:
        """Size of the outputs."""
        return self._output_size

    def call(self, inputs: Tensor, state: Any) -> tuple[Tensor, Any]:
        """Makes one step; arguments as for the cell."""
        output, state = self._cell(inputs, state)
        mapped = linear(output, self._output_size, True)
        return mapped if self._activation is None else self._activation(mapped), state


class InputProjectionWrapper(_Wrapper):
    """A linear map of a cell's inputs. Variables: kernel [input, num_proj], bias."""

    def __init__(
        self,
        cell: Any,
        num_proj: int,
        activation: Callable[[Tensor], Tensor] | None = None,
        input_size: int | None = None,
        reuse: bool | None = None,
    ) -> None:
        """Keeps the settings: the size of the cell's inputs, and their activation, None for none.

        Raises:
          TypeError: It is no cell.
          ValueError: The size is less than 1.
        """
        super().__init__(cell, reuse)
        del input_size
        _check_size("InputProjectionWrapper", "num_proj", num_proj)
        self._num_proj = num_proj
        self._activation = activation

    def call(self, inputs: Tensor, state: Any) -> tuple[Tensor, Any]:
        """Makes one step; arguments as for the cell."""
        mapped = linear(inputs, self._num_proj, True)
        return self._cell(mapped if self._activation is None else self._activation(mapped), state)


class EmbeddingWrapper(_Wrapper):
    """A cell whose inputs are ids. Variable: embedding [embedding_classes, embedding_size]."""

    def __init__(
        self,
        cell: Any,
        embedding_classes: int,
        embedding_size: int,
        initializer: Any = None,
        reuse: bool | None = None,
    ) -> None:
        """Keeps the settings.

        Without initializer it is that of the scope, else uniform in ±√3.

        Raises:
          TypeError: It is no cell.
          ValueError: A size is less than 1.
        """
        super().__init__(cell, reuse)
        _check_size("EmbeddingWrapper", "embedding_classes", embedding_classes)
        _check_size("EmbeddingWrapper", "embedding_size", embedding_size)
        self._classes, self._size = embedding_classes, embedding_size
        self._initializer = initializer

    def call(self, inputs: Tensor, state: Any) -> tuple[Tensor, Any]:
        """Makes one step from ids, [batch] or [batch, 1]."""
        with v1.device("/cpu:0"):
            start = self._initializer or v1.get_variable_scope().initializer
            start = start or v1.random_uniform_initializer(-(3**0.5), 3**0.5)
            dtype = tf.nest.flatten(state)[0].dtype
            shape = [self._classes, self._size]
            embedding = v1.get_variable("embedding", shape, dtype, initializer=start)
            embedded = tf.nn.embedding_lookup(embedding, tf.reshape(inputs, [-1]))
        return self._cell(embedded, state)


def _check_size(cell: str, name: str, size: int) -> None:
    if size < 1:
        raise ValueError(f"{cell} got {name}={size}, but it must be at least 1.")
