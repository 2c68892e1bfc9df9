"""An optimizer that changes what another one is given, or adds to it."""

from collections.abc import Iterable
from typing import Any

import tensorflow as tf

from replicate._types import Gradient, Operation, Tensor, Variable
from replicate.errors import ArgumentTypeError

v1 = tf.compat.v1


class DelegatingOptimizer(v1.train.Optimizer):
    """Has another optimizer do all the work."""

    def __init__(self, opt: Any, name: str) -> None:
        """Keeps the optimizer.

        Raises:
          TypeError: opt is no such optimizer.
        """
        if not isinstance(opt, v1.train.Optimizer):
            raise ArgumentTypeError(f"{name} wraps a tf.compat.v1.train.Optimizer, got {opt!r}.")
        super().__init__(use_locking=False, name=name)
        self._optimizer = opt

    def compute_gradients(
        self, loss: Tensor, *args: Any, **kwargs: Any
    ) -> list[tuple[Gradient | None, Variable]]:
        """Computes gradients as the wrapped optimizer does; the arguments are its own."""
        return list(self._acting().compute_gradients(loss, *args, **kwargs))

    def apply_gradients(
        self,
        grads_and_vars: Iterable[tuple[Gradient | None, Variable]],
        global_step: Variable | None = None,
        name: str | None = None,
    ) -> Operation:
        """Applies gradients as the wrapped optimizer does."""
        return self._acting().apply_gradients(grads_and_vars, global_step, name)

    def get_slot(self, *args: Any, **kwargs: Any) -> Variable | None:
        """Returns a slot of the wrapped optimizer; the arguments are its own."""
        return self._optimizer.get_slot(*args, **kwargs)

    def get_slot_names(self, *args: Any, **kwargs: Any) -> list[str]:
        """Returns the names of the wrapped optimizer's slots; the arguments are its own."""
        return list(self._optimizer.get_slot_names(*args, **kwargs))

    def variables(self) -> list[Variable]:
        """Returns the wrapped optimizer's variables."""
        return list(self._optimizer.variables())

    def _acting(self) -> v1.train.Optimizer:
        """Returns the optimizer that computes and applies gradients: the wrapped one."""
        return self._optimizer
