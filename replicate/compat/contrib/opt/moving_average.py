"""An optimizer that keeps moving averages of the variables it trains."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import tensorflow as tf

from replicate._types import Gradient, Operation, Variable
from replicate.gradients.delegating import DelegatingOptimizer
from replicate.tower.build import build_of_tower

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
        build = build_of_tower()
        # On towers, the optimizer of one tower trains, and those of all towers know the averages.
        self._averages: list[tuple[Variable, Variable]] = build.shared(list) if build else []

    def apply_gradients(
        self,
        grads_and_vars: Iterable[tuple[Gradient | None, Variable]],
        global_step: Variable | None = None,
        name: str | None = None,
    ) -> Operation:
        """Applies gradients, and updates the averages."""
        pairs = list(grads_and_vars)
        step = super().apply_gradients(pairs, global_step, name)
        averaged = [variable for gradient, variable in pairs if gradient is not None]
        with tf.control_dependencies([step] if self._sequential else []):
            update = self._average.apply(averaged)
        self._averages[:] = [(each, self._average.average(each)) for each in averaged]
        return tf.group(step, update, name="train_with_avg")

    def swapping_saver(
        self, var_list: Any = None, name: str = "swapping_saver", **kwargs: Any
    ) -> Any:
        """Makes a Saver that writes each average under the name of its variable.

        The variable is written under the name of the average. So a program that knows no averages
        restores them.

        The last tower trains, and its scaffold counts. In the other towers the Saver has no
        operations before its `build`, which a scaffold calls.

        Args:
          var_list: Variables, or a dict of them by their names. None for all.
          name: Name of the Saver.
          **kwargs: Further arguments of `tf.compat.v1.train.Saver`.

        Raises:
          ValueError: `minimize` or `apply_gradients` has not been called before.
        """
        build = build_of_tower()
        if build and build.tower and not build.tower.is_last and build.calls[build.tower.index]:
            return _LaterSaver(lambda: self._swapped(var_list), name=name, **kwargs)
        return v1.train.Saver(self._swapped(var_list), name=name, **kwargs)

    def _swapped(self, var_list: Any) -> dict[str, Any]:
        """Returns variables by name; averages and their variables have each other's names."""
        if not self._averages:
            raise ValueError(
                "swapping_saver was called before minimize or apply_gradients, which make the "
                "averages. Call one of them first."
            )
        named = _named(v1.global_variables() if var_list is None else var_list)
        swapped = dict(named)
        for variable, average in self._averages:
            ours, theirs = variable.op.name, average.op.name
            if ours in named and theirs in named:
                swapped[ours], swapped[theirs] = named[theirs], named[ours]
        return swapped


class _LaterSaver(v1.train.Saver):
    """A Saver of variables that are known when it is built."""

    def __init__(self, find: Callable[[], Mapping[str, Any]], **settings: Any) -> None:
        """Keeps the settings. `find` returns the variables by their names."""
        super().__init__(defer_build=True, **settings)
        self._find: Callable[[], Mapping[str, Any]] | None = find
        self._settings = settings

    def build(self) -> None:
        """Makes the operations for the variables that are there now."""
        find, self._find = self._find, None
        if find is None:
            super().build()
        else:
            super().__init__(find(), **self._settings)


def _named(variables: Any) -> dict[str, Any]:
    if isinstance(variables, Mapping):
        return dict(variables)
    return {variable.op.name: variable for variable in variables}
