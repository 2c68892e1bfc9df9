"""The K-FAC optimizer that refreshes its own curvature every so many steps.

This is the class that most programs use.
"""

# The policy is `kfac.update.periodic_refresh`'s, everything else `kfac.optimizer`'s.

import warnings
from typing import Any

from kfac._types import Operation, Scalar
from kfac.optimizer import KfacOptimizer
from kfac.tracebacks import methods_show_user_frames
from kfac.update.periodic_refresh import RefreshPeriods


@methods_show_user_frames
class PeriodicInvCovUpdateKfacOpt(KfacOptimizer):
    """`KfacOptimizer` whose step first updates averages and inverses, when they are due."""

    def __init__(
        self,
        invert_every: Scalar = 10,
        cov_update_every: int = 1,
        num_burnin_steps: int = 0,
        *,
        spread_inverses: bool = False,
        spread_first_inverses: bool = False,
        inverse_delay: int = 0,
        cov_ema_decay: Scalar = 0.95,
        **kwargs: Any,
    ) -> None:
        """Checks its arguments; makes no ops or variables.

        Args:
          invert_every: Steps between two computations of an inverse, ≥ 1: an int, an int Tensor or
            Variable [], or a function that returns one of these.
          cov_update_every: Steps between two updates of the averages, ≥ 1.
          num_burnin_steps: Number of runs at the beginning that only update the averages, giving
            all batches the same weight. Weights, velocities, `counter` and the global step stay as
            they are. Here also where a wrapper calls `apply_gradients`.
          spread_inverses: True to compute all inverses at the first step, and from then on some
            of them in each step, so that no step pays for all: each is computed every
            `invert_every` steps, which must be an int then.
          spread_first_inverses: True to spread the first inverses like the later ones, for a fast
            first step on large networks. Needs `spread_inverses`. Until both of its factors are
            inverted, a layer moves along its scaled gradient, see `KfacOptimizer`.
          inverse_delay: d, steps from the averages that inverses are computed from to the first use
            of these inverses, ≥ 0 and < `invert_every`, which must be an int for d > 0. With 0 a
            step computes inverses for itself. Above 0 they are computed from a copy of the averages
            beside the next d steps, which use the old ones, in a thread that monitored sessions,
            such as an Estimator's, start; in other sessions
            `tf.compat.v1.train.start_queue_runners` does. Without the thread the step that first
            uses them computes them. The numbers are the same in all cases. The first step computes
            its inverses for itself.
          cov_ema_decay: Weight of the past per step, in [0, 1]; raised to the power
            `cov_update_every` for each update.
          **kwargs: The other arguments of `KfacOptimizer`.

        Raises:
          ValueError: A number is out of its range, inverses cannot be spread or delayed, or as in
            `KfacOptimizer`.
        """
        periods = RefreshPeriods(
            invert_every,
            cov_update_every,
            num_burnin_steps,
            spread_inverses,
            spread_first_inverses,
            inverse_delay,
        )
        super().__init__(cov_ema_decay=cov_ema_decay, refresh=periods, **kwargs)
        interval = self.damping_adaptation_interval
        judges_steps = kwargs.get("rejection_rho_threshold") is not None
        if kwargs.get("adapt_damping") and not judges_steps and periods.separates(interval):
            warnings.warn(
                f"K-FAC adapts its damping every {interval} steps, but inverts every "
                f"{invert_every}: some changes of the damping reach the inverses late. Make "
                "damping_adaptation_interval a multiple of invert_every.",
                stacklevel=3,
            )

    def accumulate_statistics(self) -> Operation:
        """Returns an op that adds the current batch to the sums for the next update of averages.

        For updates that follow several micro-batches: run it once for each of them, the last one
        too, and the step after the last. The averages then get the statistics of one batch that
        has all their examples; gradients are for the caller to add up. Where no update of averages
        is due it does nothing. Must be called before `apply_gradients`.
        """
        return self._step.accumulate()

    def kfac_update_ops(self) -> Operation:
        """Returns an op that updates averages, then inverses, each when it is due."""
        return self._step.update_curvature()
