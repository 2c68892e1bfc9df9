"""Cells in a row: each sees the output of the one before."""

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from replicate._types import Tensor
from replicate.compat.cells.base import RNNCell, once
from replicate.compat.cells.checks import checked_cell
from replicate.compat.cells.states import total

v1 = tf.compat.v1


class MultiRNNCell(RNNCell):
    """Cells in a row, in the scopes multi_rnn_cell/cell_0, cell_1, …."""

    def __init__(self, cells: Sequence[Any], state_is_tuple: bool = True) -> None:
        """Keeps the cells.

        Args:
          cells: The cells, that of the inputs first.
          state_is_tuple: True for a state that is a tuple of the cells' states, False for one
            tensor of states side by side.

        Raises:
          TypeError: There is no list of cells, or an entry is no cell.
          ValueError: The list is empty, or only the cells' states are tuples.
        """
        super().__init__()
        if not isinstance(cells, Sequence):
            raise TypeError(f"MultiRNNCell takes a list of cells, got {cells!r}.")
        if not cells:
            raise ValueError("MultiRNNCell takes one or more cells, got none.")
        self._cells = [checked_cell("MultiRNNCell", cell) for cell in cells]
        self._state_is_tuple = state_is_tuple
        nested = [cell.state_size for cell in cells if tf.nest.is_nested(cell.state_size)]
        if nested and not state_is_tuple:
            raise ValueError(
                "MultiRNNCell got state_is_tuple=False, but cells whose states are tuples: "
                f"{nested}. Make these with state_is_tuple=False, too."
            )

    @property
    def cells(self) -> list[Any]:
        """The cells."""
        return self._cells

    @property
    def state_size(self) -> Any:
        """A tuple of the cells' sizes, or their sum."""
        sizes = tuple(cell.state_size for cell in self._cells)
        return sizes if self._state_is_tuple else total(sizes)

    @property
    def output_size(self) -> Any:
        """Size of the last cell's output."""
        return self._cells[-1].output_size

    @property
    def trainable_weights(self) -> list[Any]:
        """Trainable variables of all cells."""
        return self._weights("trainable_weights") if self.trainable else []

    @property
    def non_trainable_weights(self) -> list[Any]:
        """Other variables of all cells."""
        others = self._weights("non_trainable_weights")
        return others if self.trainable else [*self._weights("trainable_weights"), *others]

    def _weights(self, kind: str) -> list[Any]:
        return once(each for cell in self._cells for each in getattr(cell, kind, ()))

    def zero_state(self, batch_size: Any, dtype: Any) -> Any:
        """Returns the zero state of each cell, in a tuple, or side by side."""
        with v1.name_scope(f"{type(self).__name__}ZeroState"):
            if self._state_is_tuple:
                return tuple(cell.zero_state(batch_size, dtype) for cell in self._cells)
            return super().zero_state(batch_size, dtype)

    def call(self, inputs: Tensor, state: Any) -> tuple[Tensor, Any]:
        """Makes one step of all cells.

        Raises:
          ValueError: The state has not a part for each cell.
        """
        new = []
        for number, (cell, part) in enumerate(zip(self._cells, self._parts(state), strict=True)):
            with v1.variable_scope(f"cell_{number}"):
                inputs, new_part = cell(inputs, part)
            new.append(new_part)
        return inputs, tuple(new) if self._state_is_tuple else tf.concat(new, 1)

    def _parts(self, state: Any) -> Sequence[Any]:
        if not self._state_is_tuple:
            sizes = [total(cell.state_size) for cell in self._cells]
            parts: Sequence[Any] = tf.split(state, sizes, axis=1)
            return parts
        if not tf.nest.is_nested(state) or len(state) != len(self._cells):
            raise ValueError(
                f"MultiRNNCell of {len(self._cells)} cells takes a state of as many parts, got "
                f"{state!r}."
            )
        return list(state)
