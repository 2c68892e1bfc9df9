"""Dropout of a cell's inputs, outputs and states.

With `variational_recurrent` the same entries are dropped at all times: Gal and Ghahramani (2016),
section 4.
"""

import hashlib
import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import tensorflow as tf

from replicate._types import Tensor
from replicate.compat.cells.states import LSTMStateTuple
from replicate.compat.cells.wrappers import CellWrapper

v1 = tf.compat.v1


class DropoutWrapper(CellWrapper):
    """Drops entries of a cell's inputs, outputs and states."""

    def __init__(
        self,
        cell: Any,
        input_keep_prob: Any = 1.0,
        output_keep_prob: Any = 1.0,
        state_keep_prob: Any = 1.0,
        variational_recurrent: bool = False,
        input_size: Any = None,
        dtype: Any = None,
        seed: int | None = None,
        dropout_state_filter_visitor: Callable[[Any], Any] | None = None,
        **kwargs: Any,
    ) -> None:
        """Keeps the settings, and draws what `variational_recurrent` drops.

        Args:
          cell: A cell.
          input_keep_prob: Probability that an entry of the inputs is kept, a number or a tensor.
          output_keep_prob: The same for the outputs.
          state_keep_prob: The same for the next state.
          variational_recurrent: True to drop the same entries at all times, in all sequences.
          input_size: Nest of the inputs' shapes without the batch, which `variational_recurrent`
            needs to drop inputs.
          dtype: Type of inputs, state and outputs, which `variational_recurrent` needs.
          seed: Seed of the draws, None for a random one.
          dropout_state_filter_visitor: Function of the state, or of a part of it, that gives True
            to drop from it, False not to, or a nest of these for its parts. None to drop from all
            but c of an LSTMStateTuple and TensorArrays.
          **kwargs: Arguments of the layer.

        Raises:
          TypeError: It is no cell, or the visitor is no function.
          ValueError: A probability is not in [0, 1], or a setting is missing.
        """
        super().__init__(cell, dtype=dtype, **kwargs)
        visitor = dropout_state_filter_visitor
        if visitor is not None and not callable(visitor):
            raise TypeError(f"dropout_state_filter_visitor must be a function, got {visitor!r}.")
        self._visitor = visitor or _all_but_cells
        with v1.name_scope("DropoutWrapperInit"):
            self._input_keep_prob = _probability("input_keep_prob", input_keep_prob)
            self._state_keep_prob = _probability("state_keep_prob", state_keep_prob)
            self._output_keep_prob = _probability("output_keep_prob", output_keep_prob)
        self._variational_recurrent = variational_recurrent
        self._seed = seed
        self._noise: dict[str, list[Tensor]] = {}
        if variational_recurrent:
            self._noise = self._draws(input_size, dtype)

    def __call__(
        self, inputs: Any, state: Any, scope: Any = None, **kwargs: Any
    ) -> tuple[Any, Any]:
        """Makes one step; arguments and results are those of `RNNCell`."""
        inputs = self._dropped("input", inputs, self._input_keep_prob)
        outputs, state = self._step(inputs, state, scope, kwargs)
        state = self._dropped("state", state, self._state_keep_prob, self._visitor)
        return self._dropped("output", outputs, self._output_keep_prob), state

    def _draws(self, input_size: Any, dtype: Any) -> dict[str, list[Tensor]]:
        """Returns uniform draws from [0, 1) for each tensor that may lose entries."""
        if dtype is None:
            raise ValueError("DropoutWrapper needs dtype if variational_recurrent=True.")
        sizes = {"state": self.state_size, "output": self.output_size}
        if _drops(self._input_keep_prob):
            if input_size is None:
                raise ValueError(
                    "DropoutWrapper needs input_size if variational_recurrent=True and "
                    "input_keep_prob may be below 1."
                )
            sizes = {"input": input_size, **sizes}
        return {
            kind: [
                tf.random.uniform(
                    [1, *tf.TensorShape(each).as_list()],
                    dtype=dtype,
                    seed=self._seed_of(kind, number),
                )
                for number, each in enumerate(_flat_sizes(size))
            ]
            for kind, size in sizes.items()
        }

    def _dropped(
        self,
        kind: str,
        values: Any,
        keep: Any,
        visitor: Callable[[Any], Any] = lambda _: True,
    ) -> Any:
        """Drops entries of a nest of tensors."""
        if not _drops(keep):
            return values
        flat = tf.nest.flatten(values)
        numbers = _numbers(visitor, values, itertools.count())
        if self._variational_recurrent:
            dropped = [
                value if number is None else _same_dropped(value, self._noise[kind][place], keep)
                for place, (value, number) in enumerate(zip(flat, numbers, strict=True))
            ]
        else:
            dropped = [
                value
                if number is None
                else tf.nn.dropout(value, rate=1.0 - keep, seed=self._seed_of(kind, number))
                for value, number in zip(flat, numbers, strict=True)
            ]
        return tf.nest.pack_sequence_as(values, dropped)

    def _seed_of(self, kind: str, number: int) -> int | None:
        """Returns the seed of one tensor's draws, the same as in TensorFlow 1."""
        if self._seed is None:
            return None
        text = f"{self._seed}{kind}_{number}".encode()
        return int(hashlib.md5(text, usedforsecurity=False).hexdigest()[:8], 16) & 0x7FFFFFFF


def _same_dropped(values: Tensor, noise: Tensor, keep: Any) -> Tensor:
    kept = values / keep * tf.floor(keep + noise)
    kept.set_shape(values.shape)
    return kept


def _drops(keep: Any) -> bool:
    return not isinstance(keep, float) or keep < 1.0


def _probability(name: str, given: Any) -> Any:
    """Returns a probability as a number if it is known, else as a tensor."""
    known = tf.get_static_value(tf.convert_to_tensor(given))
    if known is None:
        return tf.convert_to_tensor(given)
    if not 0 <= known <= 1:
        raise ValueError(f"DropoutWrapper got {name}={known}, but it must be in [0, 1].")
    return float(known)


def _all_but_cells(state: Any) -> Any:
    """Drops from all but c of an LSTMStateTuple and TensorArrays."""
    if getattr(state, "_fields", ()) == LSTMStateTuple._fields:
        return LSTMStateTuple(c=False, h=True)
    return not isinstance(state, tf.TensorArray)


def _numbers(
    visitor: Callable[[Any], Any], state: Any, counter: Iterator[int]
) -> Sequence[int | None]:
    """Returns, for each tensor of a state, its number if it may lose entries, else None.

    A part that the visitor leaves out takes one number.

    Raises:
      TypeError: The visitor gives something else than True, False, or a nest of these.
    """
    chosen = visitor(state)
    if chosen is False:
        next(counter)
        return [None] * len(tf.nest.flatten(state))
    if not tf.nest.is_nested(state):
        if chosen is not True:
            raise _visitor_error(state, chosen)
        return [next(counter)]
    parts = _parts(state)
    choices = [True] * len(parts) if chosen is True else _choices(chosen, state)
    found: list[int | None] = []
    for part, choice in zip(parts, choices, strict=True):
        found += _numbers(visitor if choice else lambda _: False, part, counter)
    return found


def _choices(chosen: Any, state: Any) -> Sequence[bool]:
    choices = _parts(chosen) if tf.nest.is_nested(chosen) else [chosen]
    if len(choices) != len(_parts(state)) or not all(isinstance(each, bool) for each in choices):
        raise _visitor_error(state, chosen)
    return choices


def _visitor_error(state: Any, chosen: Any) -> TypeError:
    return TypeError(
        "dropout_state_filter_visitor must give True, False, or a nest of these with the parts of "
        f"the state. It gave {chosen!r} for {state!r}."
    )


def _parts(values: Any) -> list[Any]:
    """Returns the parts of a nest in the order of `tf.nest.flatten`."""
    return [values[key] for key in sorted(values)] if isinstance(values, dict) else list(values)


def _flat_sizes(sizes: Any) -> list[Any]:
    flat: list[Any] = tf.nest.flatten(sizes)
    return flat
