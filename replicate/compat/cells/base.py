"""The classes from which cells derive.

`RNNCell` serves cells that make their variables in `call`, by `tf.get_variable`. `LayerRNNCell`
serves those that make them in `build`, by `add_weight`, as the cells of this package do.
"""

from collections.abc import Iterable
from typing import Any

import tensorflow as tf

from replicate._types import Tensor
from replicate.compat.cells import states
from replicate.compat.layers.base import Layer

v1 = tf.compat.v1


class RNNCell(Layer):
    """A cell: one step of an RNN, from (inputs, state) to (output, next state).

    A subclass has `call(inputs, state)`, `state_size` and `output_size`. The first call makes the
    variables in a scope of the cell's name, further calls use them again.
    """

    def __call__(
        self, inputs: Any, state: Any, scope: Any = None, *args: Any, **kwargs: Any
    ) -> tuple[Any, Any]:
        """Makes one step.

        Args:
          inputs: [batch, input].
          state: Nest of the sizes `state_size`, each [batch, size].
          scope: Scope of the variables, a name or a VariableScope. That of the cell's name if None.
          *args: Further arguments of `call`.
          **kwargs: Further keyword arguments of `call`.

        Returns:
          (output [batch, output_size], next state).
        """
        around = v1.get_variable_scope() if scope is None else scope
        with v1.variable_scope(around, custom_getter=self._rnn_get_variable) as entered:
            inner = None if scope is None else entered
            stepped: tuple[Any, Any] = super().__call__(inputs, state, *args, scope=inner, **kwargs)
        return stepped

    def _rnn_get_variable(self, getter: Any, *args: Any, **kwargs: Any) -> Any:
        """Lists a variable that `call` gets among those of the cell."""
        variable = getter(*args, **kwargs)
        for part in variable if hasattr(variable, "as_tensor") else [variable]:
            is_trained = getattr(part, "trainable", True)
            (self._records.trained if is_trained else self._records.fixed).append(part)
        return variable

    @property
    def trainable_weights(self) -> list[Any]:
        """Variables that are trained, those of cells inside among them."""
        return once(super().trainable_weights)

    @property
    def non_trainable_weights(self) -> list[Any]:
        """Variables that are not trained, those of cells inside among them."""
        return once(super().non_trainable_weights)

    def build(self, _: Any) -> None:
        """Makes no variables: `call` does."""
        self.built = True

    @property
    def state_size(self) -> Any:
        """Nest of the sizes of the state: numbers, or shapes without the batch.

        Raises:
          NotImplementedError: The subclass has none.
        """
        raise NotImplementedError(f"{type(self).__name__} must have the property state_size.")

    @property
    def output_size(self) -> Any:
        """Size of the output: a number, or a shape without the batch.

        Raises:
          NotImplementedError: The subclass has none.
        """
        raise NotImplementedError(f"{type(self).__name__} must have the property output_size.")

    def zero_state(self, batch_size: Any, dtype: Any) -> Any:
        """Returns a state of zeros.

        Args:
          batch_size: A number or a scalar tensor.
          dtype: Type of the state.
        """
        with v1.name_scope(f"{type(self).__name__}ZeroState"):
            return states.zeros(self.state_size, batch_size, dtype)

    def get_initial_state(
        self, inputs: Tensor | None = None, batch_size: Any = None, dtype: Any = None
    ) -> Any:
        """Returns the zero state for inputs [batch, …], or for a batch size and a type.

        Raises:
          ValueError: Batch size or type are not given, or are not those of the inputs.
        """
        if inputs is not None:
            inputs = tf.convert_to_tensor(inputs)
            batch_size = _batch_size(inputs, batch_size)
            if dtype is not None and tf.as_dtype(dtype) != inputs.dtype:
                raise ValueError(
                    f"get_initial_state got dtype={dtype}, but the inputs are {inputs.dtype}."
                )
            dtype = inputs.dtype
        if batch_size is None or dtype is None:
            raise ValueError(
                "get_initial_state needs inputs, or batch_size and dtype, got "
                f"batch_size={batch_size} and dtype={dtype}."
            )
        return self.zero_state(batch_size, dtype)


class LayerRNNCell(RNNCell):
    """A cell whose variables are made in `build`."""

    def __call__(
        self, inputs: Any, state: Any, scope: Any = None, *args: Any, **kwargs: Any
    ) -> tuple[Any, Any]:
        """Makes one step; arguments and results are those of `RNNCell`."""
        stepped: tuple[Any, Any] = Layer.__call__(self, inputs, state, *args, scope=scope, **kwargs)
        return stepped


class OneSize:
    """Members of a cell whose state is one tensor of the size of the outputs."""

    _num_units: int

    @property
    def state_size(self) -> int:
        """Size of the cell."""
        return self._num_units

    @property
    def output_size(self) -> int:
        """Size of the cell."""
        return self._num_units


def once(variables: Iterable[Any]) -> list[Any]:
    """Returns variables in their order, each of them once."""
    return list({id(each): each for each in variables}.values())


def _batch_size(inputs: Tensor, given: Any) -> Any:
    known = inputs.shape.as_list()[0] if inputs.shape.rank else None
    wanted = tf.get_static_value(given) if given is not None else None
    if known is not None and wanted is not None and known != wanted:
        raise ValueError(
            f"get_initial_state got batch_size={wanted}, but the inputs have {known} rows."
        )
    if given is not None:
        return given
    return tf.shape(inputs)[0] if known is None else known
