"""The variables that an optimizer trains: all that it was built for, and those that decay.

They are compared by their handles, as Keras has its own variables around those of TensorFlow. Owned
by `kfac.keras.training.Training`.
"""

import re
import typing
from collections.abc import Iterable, Sequence
from typing import Any

import tensorflow as tf

from kfac._types import Variable
from kfac.variables import CapturedVariable

_SHOWN = 3
"""Number of variables that a message names."""


@typing.final
class TrainedVariables:
    """The variables of one optimizer, known from when it is built.

    Attributes:
      variables: Those that it was built for.
    """

    def __init__(self) -> None:
        """Knows no variables yet."""
        # Handles are kept, so that no other one gets the identity of one of them.
        self.variables: tuple[Variable, ...] = ()
        self._built: dict[int, Any] = {}
        self._begun: dict[int, Any] = {}
        self._excluded: dict[int, Any] = {}
        self._patterns: tuple[str, ...] = ()

    def build(self, variables: Iterable[Variable]) -> None:
        """Sets the variables that may be trained."""
        self.variables = tuple(variables)
        self._built = _by_handle(self.variables)

    def begin(self, variables: Sequence[Variable]) -> None:
        """Sets the variables that a step trains, when the first step was traced."""
        self._begun = self._begun or _by_handle(variables)

    def check(self, variables: Sequence[Variable]) -> None:
        """Checks that K-FAC has statistics of variables, or makes them in its first step.

        Raises:
          ValueError: It has not.
        """
        # Keras builds the optimizer of a model in a .h5 file for no variables.
        known = self._begun or self._built or _by_handle(variables)
        names = [path_of(v) for key, v in _with_handles(variables) if id(key) not in known]
        if names:
            more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
            raise ValueError(
                f"Kfac cannot train {', '.join(names[:_SHOWN])}{more}: it was made for other "
                "variables, and has no statistics of these. They are of a layer that was not "
                "trained before, or of another model. Compile with a new optimizer, such as "
                "Kfac.from_config(optimizer.get_config())."
            )

    def exclude(self, variables: Iterable[Variable], patterns: Sequence[str]) -> None:
        """Sets the variables that do not decay: given ones, and those with a pattern in their name.

        Raises:
          ValueError: A step was traced before, or a pattern is no regular expression.
          TypeError: The patterns are one string.
        """
        if self._begun:
            raise ValueError(
                "Kfac.exclude_from_weight_decay was called after the first step. Call it before "
                "fit."
            )
        if isinstance(patterns, str):
            raise TypeError(
                f"Kfac.exclude_from_weight_decay was given var_names={patterns!r}. Pass a list of "
                f"names, such as [{patterns!r}]."
            )
        for pattern in patterns:
            try:
                re.compile(pattern)
            except re.error as error:
                raise ValueError(
                    f"Kfac.exclude_from_weight_decay was given the name {pattern!r}, which is no "
                    f"regular expression: {error}."
                ) from error
        self._excluded = _by_handle(variables)
        self._patterns = tuple(patterns)

    @property
    def all_decay(self) -> bool:
        """True if no variables are excluded from weight decay."""
        return not self._excluded and not self._patterns

    def decays(self, variable: CapturedVariable) -> bool:
        """Returns True for a variable, as a graph sees it, whose weights decay."""
        is_named = any(re.search(pattern, variable.name) for pattern in self._patterns)
        return not is_named and id(variable.components[0].handle) not in self._excluded


def components(strategy: Any, variable: Variable) -> tuple[Variable, ...]:
    """Returns the `tf.Variable`s that a variable of any Keras consists of, one per replica."""
    value = getattr(variable, "value", None)
    own = variable if value is None or callable(value) else value
    return tuple(strategy.experimental_local_results(own))


def _with_handles(variables: Iterable[Variable]) -> list[tuple[Any, Variable]]:
    strategy = tf.distribute.get_strategy()
    return [(components(strategy, v)[0].handle, v) for v in variables]


def _by_handle(variables: Iterable[Variable]) -> dict[int, Any]:
    return {id(handle): handle for handle, _ in _with_handles(variables)}


def path_of(variable: Variable) -> str:
    """Returns the path of a variable of any Keras, such as "dense/kernel"."""
    return str(getattr(variable, "path", None) or variable.name).partition(":")[0]
