"""CrossShardOptimizer: an optimizer that sums the gradients of several devices, if there are any.

On one device the wrapped optimizer does all the work; on several towers a `TowerOptimizer` does.
"""

from collections.abc import Iterable
from typing import Any

import tensorflow as tf

from replicate._types import Gradient, Operation, Tensor, Variable
from replicate.errors import ArgumentTypeError
from replicate.gradients.tower_optimizer import TowerOptimizer
from replicate.graph_mode import check_no_keras_optimizer
from replicate.tower.build import current_build

v1 = tf.compat.v1

_REDUCTIONS = (v1.losses.Reduction.MEAN, v1.losses.Reduction.SUM)


class CrossShardOptimizer(v1.train.Optimizer):
    """Wraps an optimizer so that it applies the gradients of all towers."""

    def __init__(
        self,
        opt: v1.train.Optimizer,
        reduction: str = v1.losses.Reduction.MEAN,
        name: str = "CrossShardOptimizer",
        group_assignment: Any = None,
    ):
        """Wraps an optimizer.

        Args:
          opt: An optimizer of `tf.compat.v1.train`.
          reduction: Reduction of the towers' losses, MEAN or SUM of `tf.compat.v1.losses`. On
            several towers it must be that of `TPUEstimator(loss_reduction=…)`.
          name: Name of this optimizer.
          group_assignment: Not used.

        Raises:
          ValueError: The reduction is another one.
          TypeError: opt is no optimizer of `tf.compat.v1.train`.
        """
        check_no_keras_optimizer("CrossShardOptimizer", opt)
        if not isinstance(opt, v1.train.Optimizer):
            raise ArgumentTypeError(
                f"CrossShardOptimizer wraps a tf.compat.v1.train.Optimizer, got {opt!r}."
            )
        if reduction not in _REDUCTIONS:
            raise ValueError(
                f"CrossShardOptimizer: reduction must be one of {list(_REDUCTIONS)}, got "
                f"{reduction!r}."
            )
        del group_assignment
        super().__init__(use_locking=False, name=name)
        self._opt = opt
        self._reduction = reduction
        self._towers = opt if isinstance(opt, TowerOptimizer) else TowerOptimizer(opt)

    def compute_gradients(
        self, loss: Tensor, var_list: Any = None, **kwargs: Any
    ) -> list[tuple[Gradient | None, Variable]]:
        """Computes the gradients of this tower's loss, as the wrapped optimizer does.

        Args:
          loss: Loss over this tower's part of the batch.
          var_list: Variables, None for all trainable ones.
          **kwargs: Other named arguments of the wrapped optimizer's `compute_gradients`.

        Returns:
          (gradient, variable) pairs; a gradient may be None.

        Raises:
          ValueError: The reduction is not that of the towers' losses.
        """
        return list(self._acting().compute_gradients(loss, var_list=var_list, **kwargs))

    def apply_gradients(
        self,
        grads_and_vars: Iterable[tuple[Gradient | None, Variable]],
        global_step: Variable | None = None,
        name: str | None = None,
    ) -> Operation:
        """Applies the gradients of all towers.

        Args:
          grads_and_vars: (gradient, variable) pairs. A gradient may be None.
          global_step: Variable that is incremented once a step.
          name: Name of the operation.

        Returns:
          The operation that trains.

        Raises:
          ValueError: The reduction is not that of the towers' losses.
        """
        return self._acting().apply_gradients(grads_and_vars, global_step, name)

    def get_slot(self, *args: Any, **kwargs: Any) -> Variable | None:
        """Returns a slot of the wrapped optimizer.

        Args:
          *args: Variable and name of the slot.
          **kwargs: The same, by name.
        """
        return self._opt.get_slot(*args, **kwargs)

    def get_slot_names(self, *args: Any, **kwargs: Any) -> list[str]:
        """Returns the names of the wrapped optimizer's slots.

        Args:
          *args: Arguments of the wrapped optimizer's method.
          **kwargs: Named ones.
        """
        return list(self._opt.get_slot_names(*args, **kwargs))

    def variables(self) -> list[Variable]:
        """Returns the wrapped optimizer's variables."""
        return list(self._opt.variables())

    def _acting(self) -> v1.train.Optimizer:
        """Returns the optimizer that does the work.

        A TowerOptimizer around this one applies the sum over towers outside of them.
        """
        build = current_build()
        if build is None or build.tower is None or build.tower.count == 1 or build.is_outside:
            return self._opt
        if build.settings.averages_loss is None:
            build.sums_loss |= self._reduction == v1.losses.Reduction.SUM
        elif build.averages_loss != (self._reduction == v1.losses.Reduction.MEAN):
            loss = "averaged" if build.averages_loss else "summed"
            raise ValueError(
                f"CrossShardOptimizer(reduction={self._reduction!r}) is used on "
                f"{build.tower.count} towers whose losses are {loss}. Give the same reduction to "
                "TPUEstimator(loss_reduction=…)."
            )
        return self._towers
