"""Cells around another one, with no scope of their own: the variables are those of the cell."""

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from replicate.compat.cells.base import RNNCell
from replicate.compat.cells.checks import checked_cell

v1 = tf.compat.v1


class CellWrapper(RNNCell):
    """A cell around another one. A subclass changes `__call__`."""

    def __init__(self, cell: Any, **kwargs: Any) -> None:
        """Keeps the cell.

        Args:
          cell: A cell.
          **kwargs: Arguments of the layer.

        Raises:
          TypeError: It is no cell.
        """
        super().__init__(**kwargs)
        self._cell = checked_cell(type(self).__name__, cell)

    @property
    def cell(self) -> Any:
        """The cell inside."""
        return self._cell

    @property
    def wrapped_cell(self) -> Any:
        """The cell inside."""
        return self._cell

    @property
    def state_size(self) -> Any:
        """Size of the cell's state."""
        return self._cell.state_size

    @property
    def output_size(self) -> Any:
        """Size of the cell's output."""
        return self._cell.output_size

    @property
    def trainable_weights(self) -> list[Any]:
        """Trainable variables of the cell."""
        return list(getattr(self._cell, "trainable_weights", ()))

    @property
    def non_trainable_weights(self) -> list[Any]:
        """Other variables of the cell."""
        return list(getattr(self._cell, "non_trainable_weights", ()))

    def build(self, inputs_shape: Any) -> None:
        """Makes the variables of the cell for inputs of a shape."""
        self._cell.build(inputs_shape)
        self.built = True

    def zero_state(self, batch_size: Any, dtype: Any) -> Any:
        """Returns the zero state of the cell."""
        with v1.name_scope(f"{type(self).__name__}ZeroState"):
            return self._cell.zero_state(batch_size, dtype)

    def _step(self, inputs: Any, state: Any, scope: Any, kwargs: Any) -> tuple[Any, Any]:
        """Makes one step of the cell inside. Old cells need not have a scope."""
        if scope is not None:
            kwargs = {"scope": scope, **kwargs}
        stepped: tuple[Any, Any] = self._cell(inputs, state, **kwargs)
        return stepped


class ResidualWrapper(CellWrapper):
    """Adds the inputs of a cell to its outputs: He et al. (2015), section 3.1."""

    def __init__(
        self, cell: Any, residual_fn: Callable[[Any, Any], Any] | None = None, **kwargs: Any
    ) -> None:
        """Keeps the parts.

        Args:
          cell: A cell.
          residual_fn: Function of (inputs, outputs) that gives the outputs, their sum if None.
          **kwargs: Arguments of the layer.

        Raises:
          TypeError: It is no cell.
        """
        super().__init__(cell, **kwargs)
        self._residual_fn = residual_fn or _sum

    def __call__(
        self, inputs: Any, state: Any, scope: Any = None, **kwargs: Any
    ) -> tuple[Any, Any]:
        """Makes one step; arguments and results are those of `RNNCell`.

        Raises:
          ValueError: Inputs and outputs have different shapes, and there is no residual_fn.
        """
        outputs, state = self._step(inputs, state, scope, kwargs)
        return self._residual_fn(inputs, outputs), state


class DeviceWrapper(CellWrapper):
    """Runs a cell on a device."""

    def __init__(self, cell: Any, device: Any, **kwargs: Any) -> None:
        """Keeps the parts.

        Args:
          cell: A cell.
          device: Name of a device, or a device function.
          **kwargs: Arguments of the layer.

        Raises:
          TypeError: It is no cell.
        """
        super().__init__(cell, **kwargs)
        self._device = device

    def zero_state(self, batch_size: Any, dtype: Any) -> Any:
        """Returns the zero state of the cell, on the device."""
        with v1.device(self._device):
            return super().zero_state(batch_size, dtype)

    def __call__(
        self, inputs: Any, state: Any, scope: Any = None, **kwargs: Any
    ) -> tuple[Any, Any]:
        """Makes one step on the device; arguments and results are those of `RNNCell`."""
        with v1.device(self._device):
            return self._step(inputs, state, scope, kwargs)


def _sum(inputs: Any, outputs: Any) -> Any:
    tf.nest.assert_same_structure(inputs, outputs)

    def add(one: Any, other: Any) -> Any:
        if not one.shape.is_compatible_with(other.shape):
            raise ValueError(
                f"ResidualWrapper adds inputs {one.shape} to outputs {other.shape}: they must "
                "have one shape, or residual_fn must make it."
            )
        return one + other

    return tf.nest.map_structure(add, inputs, outputs)
