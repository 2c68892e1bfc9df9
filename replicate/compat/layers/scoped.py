"""A layer's place: its graph, its name and its variable scope."""

import contextlib
from collections.abc import Iterator
from typing import Any

import tensorflow as tf

from replicate.compat.layers import keras_style
from replicate.compat.layers.naming import snake_case, unique_name

v1 = tf.compat.v1


class Scoped(tf.Module):
    """A layer in a variable scope, which it takes when it is first called.

    Attributes:
      name: Name of the layer, that of the class with a number if none was given.
      built: True after `build`.
    """

    def __init__(self, name: Any, scope: Any, reuse: bool | None) -> None:
        """Takes a name, and the scope if one is given.

        Args:
          name: Name of the variable scope; made unique there if it is taken. None for the class's.
          scope: Variable scope or its name; None to take one at the first call.
          reuse: True to share variables that are in the scope.
        """
        self._reuse = reuse
        self._graph = v1.get_default_graph()
        self._keras_style = keras_style.is_on()
        self._set_name(name)
        self._scope: Any = None
        self._is_scope_fresh = False
        self.built = False
        if scope is not None:
            with v1.variable_scope(scope) as captured:
                self._scope = captured

    def _set_name(self, name: Any) -> None:
        if isinstance(name, v1.VariableScope):
            name = name.name
        base = name or snake_case(type(self).__name__)
        self._name = name or unique_name(base, self._graph)
        self._base_name = self._name if self._keras_style else base

    @property
    def graph(self) -> Any:
        """Graph in which the layer was made."""
        return self._graph

    @property
    def scope_name(self) -> str:
        """Name of the variable scope.

        Raises:
          ValueError: The layer was not called yet, so it has no scope.
        """
        if self._scope is None:
            raise ValueError(
                f"Layer {self.name} has no scope_name before it is called for the first time."
            )
        return self._scope.name

    def _check_graph_mode(self) -> None:
        if tf.executing_eagerly():
            raise ValueError(
                f"Layer {self.name} was used in eager execution, and layers of TensorFlow 1 need a "
                "graph: call tf.compat.v1.disable_v2_behavior() at the start of the program, or "
                "use the layer within tf.Graph().as_default()."
            )

    def _take_scope(self, scope: Any) -> None:
        """Takes a variable scope if the layer has none: the given one, or one of its own name."""
        if self._scope is not None:
            return
        if self._reuse:
            context = v1.variable_scope(self._base_name if scope is None else scope)
        else:
            context = v1.variable_scope(scope, default_name=self._base_name)
        with context as captured:
            self._scope = captured
        self._is_scope_fresh = True

    @contextlib.contextmanager
    def _entered(self) -> Iterator[str]:
        """Enters the variable scope, without its name scope, whose name it gives."""
        reuse = True if self.built else self._reuse
        with v1.variable_scope(self._scope, reuse=reuse, auxiliary_name_scope=False) as current:
            is_first, self._is_scope_fresh = self._is_scope_fresh, False
            if self._keras_style and not is_first:
                yield self._scope.name.rpartition("/")[2]
            else:
                yield current.original_name_scope

    @contextlib.contextmanager
    def _entered_for_weights(self) -> Iterator[None]:
        """Enters the variable scope and its name scope, outside of a call, too."""
        self._take_scope(None)
        reuse = True if self.built else self._reuse
        with (
            v1.variable_scope(self._scope, reuse=reuse, auxiliary_name_scope=False) as current,
            v1.name_scope(current.original_name_scope),
        ):
            yield
