"""The K-FAC optimizer that refreshes its own curvature every so many steps.

This is the class that most programs use.
"""

# The policy is `kfac.update.refresh`'s, everything else `kfac.optimizer`'s.

import warnings
from typing import Any

from kfac._types import Operation, Scalar
from kfac.optimizer import KfacOptimizer
from kfac.settings import KfacSettings, documents_settings
from kfac.tracebacks import methods_show_user_frames
from kfac.update.refresh import RefreshPeriods


@methods_show_user_frames
class PeriodicInvCovUpdateKfacOpt(KfacOptimizer):
    """`KfacOptimizer` whose step first updates averages and inverses, when they are due."""

    @documents_settings
    def __init__(  # noqa: D417
        self,
        invert_every: Scalar = KfacSettings.invert_every,
        cov_update_every: int = KfacSettings.cov_update_every,
        num_burnin_steps: int = KfacSettings.num_burnin_steps,
        *,
        spread_inverses: bool = KfacSettings.spread_inverses,
        spread_first_inverses: bool = KfacSettings.spread_first_inverses,
        inverse_delay: int = KfacSettings.inverse_delay,
        early_refresh: bool = KfacSettings.early_refresh,
        cov_ema_decay: Scalar = KfacSettings.cov_ema_decay,
        **kwargs: Any,
    ) -> None:
        """Checks its arguments; makes no ops or variables.

        They are settings, described in `kfac.settings.KfacSettings`.

        Args:
          **kwargs: The other arguments of `KfacOptimizer`.

        Raises:
          ValueError: A number is out of its range, inverses cannot be spread or delayed, or as in
            `KfacOptimizer`.
          TypeError: An argument is unknown, or as in `KfacOptimizer`.
        """
        self._check_names(kwargs)
        periods = RefreshPeriods(
            invert_every,
            cov_update_every,
            num_burnin_steps,
            spread_inverses,
            spread_first_inverses,
            inverse_delay,
            early_refresh,
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
