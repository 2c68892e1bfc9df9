"""An optimizer that keeps moving averages of the variables it trains."""

from collections.abc import Iterable, Mapping
from typing import Any

import tensorflow as tf

from replicate._types import Gradient, Operation, Variable
from replicate.gradients.delegating import DelegatingOptimizer

v1 = tf.compat.v1


class MovingAverageOptimizer(DelegatingOptimizer):
    """Trains with another optimizer, and updates an exponential moving average after each step.

    The averages are the variables "<name>/ExponentialMovingAverage".
    """

    def __init__(
        self,
        opt: v1.train.Optimizer,
        average_decay: Any = 0.9999,
        num_updates: Any = None,
        sequential_update: bool = True,
    ) -> None:
        """Keeps the settings.

        Args:
          opt: An optimizer.
          average_decay: Share of the average that stays at each step.
          num_updates: Number of the step: early averages decay faster. None for the same decay.
          sequential_update: True to average after the step; False to read variables before, during
            or after it.

        Raises:
          TypeError: opt is no optimizer.
        """
        super().__init__(opt, "MovingAverage")
        self._average = v1.train.ExponentialMovingAverage(average_decay, num_updates=num_updates)
        self._sequential = sequential_update
        self._averaged: list[Variable] | None = None

    def apply_gradients(
        self,
        grads_and_vars: Iterable[tuple[Gradient | None, Variable]],
        global_step: Variable | None = None,
        name: str | None = None,
    ) -> Operation:
        """Applies gradients, and updates the averages."""
        pairs = list(grads_and_vars)
        step = super().apply_gradients(pairs, global_step, name)
        self._averaged = [variable for gradient, variable in pairs if gradient is not None]
        with tf.control_dependencies([step] if self._sequential else []):
            update = self._average.apply(self._averaged)
        return tf.group(step, update, name="train_with_avg")

    def swapping_saver(
        self, var_list: Any = None, name: str = "swapping_saver", **kwargs: Any
    ) -> Any:
        """Makes a Saver that writes each average under the name of its variable.

        The variable is written under the name of the average. So a program that knows no averages
        restores them.

        Args:
          var_list: Variables, or a dict of them by their names. None for all.
          name: Name of the Saver.
          **kwargs: Further arguments of `tf.compat.v1.train.Saver`.

        Raises:
          ValueError: `minimize` or `apply_gradients` has not been called before.
        """
        if self._averaged is None:
            raise ValueError(
                "swapping_saver was called before minimize or apply_gradients, which make the "
                "averages. Call one of them first."
            )
        named = _named(v1.global_variables() if var_list is None else var_list)
        swapped = dict(named)
        for variable in self._averaged:
            average = self._average.average(variable)
            ours, theirs = variable.op.name, average.op.name
            if ours in named and theirs in named:
                swapped[ours], swapped[theirs] = named[theirs], named[ours]
        return v1.train.Saver(swapped, name=name, **kwargs)


def _named(variables: Any) -> dict[str, Any]:
    if isinstance(variables, Mapping):
        return dict(variables)
    return {variable.op.name: variable for variable in variables}
