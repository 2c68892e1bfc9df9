"""Variables and lookup tables of feature columns, in the graph and variable scope of the caller.

`ColumnState` is the state manager that the methods of feature columns ask for their variables.
"""

from collections.abc import Sequence
from typing import Any, final

import tensorflow as tf

from replicate._types import Variable

v1 = tf.compat.v1


@final
class ColumnState:
    """State of the columns of one model, in one graph."""

    def __init__(self) -> None:
        self._variables: dict[tuple[Any, str], Variable] = {}
        self._resources: dict[tuple[Any, str], Any] = {}

    def create_variable(
        self,
        feature_column: Any,
        name: str,
        shape: Sequence[int],
        dtype: Any = None,
        trainable: bool = True,
        use_resource: bool = True,
        initializer: Any = None,
    ) -> Variable:
        """Makes or shares a variable of a column, in the current variable scope.

        `use_resource` is ignored: the kind of variable is that of the scope, as for all of a model.
        """
        del use_resource
        made = v1.get_variable(
            name, shape, dtype or tf.float32, initializer=initializer, trainable=trainable
        )
        self._variables[feature_column, name] = made
        return made

    def get_variable(self, feature_column: Any, name: str) -> Variable:
        """Returns a variable of a column.

        Raises:
          ValueError: The column made no variable of that name.
        """
        return _found(self._variables, feature_column, name, "variable")

    def add_resource(self, feature_column: Any, name: str, resource: Any) -> None:
        """Keeps a lookup table of a column."""
        self._resources[feature_column, name] = resource

    def has_resource(self, feature_column: Any, name: str) -> bool:
        """Returns True if the column has such a lookup table."""
        return (feature_column, name) in self._resources

    def get_resource(self, feature_column: Any, name: str) -> Any:
        """Returns a lookup table of a column.

        Raises:
          ValueError: The column made no table of that name.
        """
        return _found(self._resources, feature_column, name, "lookup table")


def _found(state: dict[tuple[Any, str], Any], column: Any, name: str, kind: str) -> Any:
    if (column, name) not in state:
        raise ValueError(
            f"Feature column {column.name!r} has no {kind} {name!r}. create_state of the column "
            "must make it before it is used."
        )
    return state[column, name]
