"""The outer step of a round: from the mean change of workers that train apart to new weights.

Workers make local steps, each with its own weights, and meet in rounds. The outer optimizer gets
the mean over workers of the old weights minus the new ones, as a gradient, and all workers go on
from its result. Gradient descent with a rate of 1 averages the weights.

Reference: Douillard et al. (2023), "DiLoCo: Distributed Low-Communication Training of Language
Models", arXiv 2311.08105, algorithm 1.
"""

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias, final

import tensorflow as tf

from replicate._types import Operation, Tensor, Variable
from replicate.graph_ops.initial_values import unconditional_initial_values
from replicate.saved.checkpoint_names import allow_missing_state

v1 = tf.compat.v1

OuterOptimizer: TypeAlias = v1.train.Optimizer | Callable[[], v1.train.Optimizer]
"""An optimizer, or a function without arguments that makes one."""


def nesterov() -> v1.train.Optimizer:
    """Returns the optimizer of DiLoCo: Nesterov's momentum of 0.9 with a rate of 0.7."""
    return v1.train.MomentumOptimizer(0.7, 0.9, use_nesterov=True)


def check_outer_optimizer(owner: str, given: object) -> None:
    """Refuses what is no `OuterOptimizer`.

    Args:
      owner: Name of the class whose argument it is, for messages.
      given: The argument.

    Raises:
      TypeError: It is neither an optimizer nor a function.
    """
    if not callable(given) and not isinstance(given, v1.train.Optimizer):
        raise _kind_error(owner, repr(given))


def _kind_error(owner: str, got: str) -> TypeError:
    return TypeError(
        f"{owner}: outer_optimizer must be a tf.compat.v1.train.Optimizer or a function without "
        f"arguments that returns one; got {got}."
    )


@final
class OuterStep:
    """The step of an outer optimizer in one graph."""

    def __init__(self, owner: str, given: OuterOptimizer):
        """Makes the optimizer, if a function is given.

        Args:
          owner: Name of the class whose argument it is, for messages.
          given: The optimizer, or a function that makes it.

        Raises:
          TypeError: It is neither of the two.
        """
        check_outer_optimizer(owner, given)
        made: Any = given() if callable(given) else given
        if not isinstance(made, v1.train.Optimizer):
            raise _kind_error(owner, f"{given!r}, which returned {made!r}")
        self._optimizer = made
        allow_missing_state(made)

    def apply(self, centers: Sequence[Variable], changes: Sequence[Tensor]) -> Operation:
        """Returns the operation that changes the centers, after the active control dependencies.

        The slots of the optimizer are global variables beside the centers.

        Args:
          centers: The weights at the start of the round.
          changes: Mean over the workers of the center minus the worker's weight, in the shapes of
            the centers.
        """
        pairs: list[tuple[Any, Variable]] = []
        for center, change in zip(centers, changes, strict=True):
            with v1.device(center.device):
                pairs.append((tf.cast(change, center.dtype.base_dtype), center))
        with unconditional_initial_values():
            return self._optimizer.apply_gradients(pairs)

    @property
    def variables(self) -> list[Variable]:
        """The optimizer's variables that exist, equal on all workers."""
        return list(self._optimizer.variables())
