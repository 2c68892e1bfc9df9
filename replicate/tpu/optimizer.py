"""CrossShardOptimizer: an optimizer that sums the gradients of several devices, if there are any.

On one device the wrapped optimizer does all the work; on several towers a `TowerOptimizer` does.
"""

from typing import Any

import tensorflow as tf

from replicate.gradients.delegating import DelegatingOptimizer
from replicate.gradients.tower_optimizer import TowerOptimizer
from replicate.graph_mode import check_no_keras_optimizer
from replicate.tower.build import build_of_tower

v1 = tf.compat.v1

_REDUCTIONS = (v1.losses.Reduction.MEAN, v1.losses.Reduction.SUM)


class CrossShardOptimizer(DelegatingOptimizer):
    """Wraps an optimizer so that it applies the gradients of all towers.

    `compute_gradients` and `apply_gradients` raise ValueError if the reduction is not that of the
    towers' losses.
    """

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
        if reduction not in _REDUCTIONS:
            raise ValueError(
                f"CrossShardOptimizer: reduction must be one of {list(_REDUCTIONS)}, got "
                f"{reduction!r}."
            )
        del group_assignment
        super().__init__(opt, name)
        self._reduction = reduction
        self._towers = opt if isinstance(opt, TowerOptimizer) else TowerOptimizer(opt)

    def _acting(self) -> v1.train.Optimizer:
        """Returns the optimizer that does the work.

        A TowerOptimizer around this one applies the sum over towers outside of them.
        """
        build = build_of_tower()
        if build is None or build.tower is None or build.tower.count == 1:
            return self._optimizer
        if build.settings.averages_loss is None:
            build.verdicts.sums_loss |= self._reduction == v1.losses.Reduction.SUM
        elif build.averages_loss != (self._reduction == v1.losses.Reduction.MEAN):
            loss = "averaged" if build.averages_loss else "summed"
            raise ValueError(
                f"CrossShardOptimizer(reduction={self._reduction!r}) is used on "
                f"{build.tower.count} towers whose losses are {loss}. Give the same reduction to "
                "TPUEstimator(loss_reduction=…)."
            )
        return self._towers
