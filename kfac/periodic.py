"""A K-FAC optimizer that refreshes its own curvature every so many steps.

Only decides when: averages, then inverses, then the step, strictly in this order. Everything else
is `kfac.optimizer`'s. This is the class that most programs use.
"""

import typing
from typing import Any

import tensorflow as tf

from kfac._types import GradsAndVars, Operation, Scalar, Tensor, Variable
from kfac.arguments import check_number, check_period
from kfac.optimizer import KfacOptimizer
from kfac.state import read

v1 = tf.compat.v1


@typing.final
class PeriodicInvCovUpdateKfacOpt(KfacOptimizer):
    """`KfacOptimizer` whose step first updates averages and inverses, when they are due."""

    def __init__(
        self,
        invert_every: int = 10,
        cov_update_every: int = 1,
        *,
        cov_ema_decay: Scalar = 0.95,
        **kwargs: Any,
    ) -> None:
        """Checks its arguments; makes no ops or variables.

        Args:
          invert_every: Steps between two computations of the inverses, ≥ 1.
          cov_update_every: Steps between two updates of the averages, ≥ 1.
          cov_ema_decay: Weight of the past per step, in [0, 1]; raised to the power
            `cov_update_every` for each update.
          **kwargs: The other arguments of `KfacOptimizer`.

        Raises:
          ValueError: A period is not a positive int, or as in `KfacOptimizer`.
        """
        check_period("invert_every", invert_every)
        check_period("cov_update_every", cov_update_every)
        check_number("cov_ema_decay", cov_ema_decay, "in [0, 1]", lambda x: 0 <= x <= 1)
        super().__init__(cov_ema_decay=cov_ema_decay**cov_update_every, **kwargs)
        self._invert_every = invert_every
        self._cov_update_every = cov_update_every

    def apply_gradients(
        self,
        grads_and_vars: GradsAndVars,
        global_step: Variable | None = None,
        name: str | None = None,
    ) -> Operation:
        """Updates averages and inverses if they are due, then makes one step.

        Args:
          grads_and_vars: As in `KfacOptimizer.apply_gradients`.
          global_step: Incremented by one after the step.
          name: Name of the returned op.

        Raises:
          ValueError: As in `KfacOptimizer.apply_gradients`.
        """
        pairs = self.check_gradients(grads_and_vars)
        with v1.control_dependencies([self.kfac_update_ops()]):
            return super().apply_gradients(pairs, global_step=global_step, name=name)

    def kfac_update_ops(self) -> Operation:
        """Returns an op that updates averages, then inverses, each when it is due."""
        step = read(self.counter)
        averages = self._estimator.make_cov_update_op(_is_due(step, self._cov_update_every))
        with v1.control_dependencies([averages]):
            return self._estimator.make_inv_update_op(_is_due(step, self._invert_every))


def _is_due(step: Tensor, period: int) -> Tensor | bool:
    return True if period == 1 else tf.equal(step % period, 0)
