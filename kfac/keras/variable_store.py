"""The variables of K-FAC over all traces of a function.

A `tf.function` is traced anew for batches of another shape, and each trace builds K-FAC's ops anew.
Its variables must be the same in all traces. The store is a creator of variables: it makes each
name once, outside of the function, and hands it out afterwards. Values that were loaded before a
variable was made wait here for it. Owned by the optimizers of `kfac.keras`.
"""

import contextlib
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from kfac._types import DType, Graph, Tensor, Variable

MakeVariable = Callable[[str, Callable[[], Tensor], tuple[int, ...], DType], Variable]
"""A function that makes a variable of a name, first value, shape and dtype, once."""


def make_at_once(next_creator: Callable[..., Variable], **arguments: Any) -> Variable:
    """Makes a variable with its value; a creator for `tf.variable_creator_scope`.

    It must be called in a `tf.init_scope`, outside of the function that is being traced. TensorFlow
    takes the variable there for one of the function, which it would lift out after the trace, and
    then trace the whole function a second time.
    """
    return next_creator(**{**arguments, "experimental_enable_variable_lifting": False})


@typing.final
class VariableStore:
    """Variables by name, each made by a function that makes what the optimizer keeps.

    Attributes:
      variables: Those that were made.
    """

    def __init__(self, make: MakeVariable) -> None:
        self._make = make
        self.variables: dict[str, Variable] = {}
        self._loaded: dict[str, np.ndarray] = {}
        self._is_making = False
        self._paths: tuple[str, ...] = ()

    def name_parameters(self, paths: Sequence[str]) -> None:
        """Sets the names of the model's variables, in order, after which K-FAC names its own."""
        self._paths = tuple(paths)

    def _key(self, name: str) -> str:
        """Returns the key under which a variable is saved.

        Keras numbers layers by process, so a model's variables are saved by their position.
        """
        owners = [path for path in self._paths if name.startswith(f"kfac/{path}/")]
        if not owners:
            return name.replace("/", ".")
        owner = max(owners, key=len)
        rest = name.removeprefix(f"kfac/{owner}/").replace("/", ".")
        return f"kfac.{self._paths.index(owner)}.{rest}"

    def values(self) -> dict[str, np.ndarray]:
        """Returns the values of all variables, and those that wait for a variable, by key."""
        made = {self._key(name): variable.numpy() for name, variable in self.variables.items()}
        return {**self._loaded, **made}

    def load(self, values: Mapping[str, np.ndarray]) -> None:
        """Sets variables, by key, now or when they are made."""
        made = {self._key(name): variable for name, variable in self.variables.items()}
        for key, value in values.items():
            if key in made:
                made[key].assign(value)
            else:
                self._loaded[key] = value

    @contextlib.contextmanager
    def scope(self, graph: Graph) -> Iterator[None]:
        """Makes the store the creator of variables, in a function's graph and outside of it."""
        with contextlib.ExitStack() as stack:
            stack.enter_context(tf.init_scope())
            stack.enter_context(tf.variable_creator_scope(self._create))
            stack.enter_context(graph.as_default())
            stack.enter_context(tf.variable_creator_scope(self._create))
            yield

    def _create(self, next_creator: Callable[..., Variable], **arguments: Any) -> Variable:
        """Returns the variable of a name; see `tf.variable_creator_scope`."""
        if self._is_making:
            return make_at_once(next_creator, **arguments)
        name, first = arguments["name"], arguments["initial_value"]
        if name not in self.variables:
            self._is_making = True
            try:
                with tf.init_scope():
                    self.variables[name] = self._made(name, first)
            finally:
                self._is_making = False
        return self.variables[name]

    def _made(self, name: str, first: Callable[[], Tensor]) -> Variable:
        value = self._loaded.pop(self._key(name), None)
        value = tf.convert_to_tensor(first() if value is None else value)
        return self._make(name, lambda: value, tuple(value.shape), value.dtype)
