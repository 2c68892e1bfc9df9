"""The periodic refresh policy: averages and inverses every so many steps, after a burn-in.

The order in a run is averages, inverses, step; each uses the results of the one before. In a
burn-in only the averages are updated. A step that reads no averages itself is computed beside their
update, but made after it.

Inverses can be spread over the steps of a period, see `kfac.update.refresh.Spread`.
"""

import dataclasses
import numbers
import typing

import tensorflow as tf

from kfac._types import Scalar, Tensor, Variable
from kfac.arguments import check_period
from kfac.schedules import called_once, decay_per_update, is_due
from kfac.settings import KfacSettings
from kfac.state import Addition, make_counter, read
from kfac.update.refresh import Due, RefreshPolicy, Spread


@typing.final
@dataclasses.dataclass(eq=False)
class RefreshPeriods(RefreshPolicy):
    """Averages, then inverses, each when its period is over.

    The attributes are those of `kfac.settings.KfacSettings` that have their names.
    """

    invert_every: Scalar
    cov_update_every: int
    num_burnin_steps: int
    spread_inverses: bool
    spread_first_inverses: bool = KfacSettings.spread_first_inverses
    inverse_delay: int = KfacSettings.inverse_delay
    _burnin_counter: Variable = dataclasses.field(default=None, init=False, repr=False)

    def __post_init__(self) -> None:
        """Checks the values.

        Raises:
          ValueError: One of them is out of its range, or inverses cannot be spread or delayed.
        """
        fixes_period = self.spread_inverses or self.inverse_delay != 0
        if isinstance(self.invert_every, numbers.Real) or fixes_period:
            check_period("invert_every", self.invert_every)
        check_period("cov_update_every", self.cov_update_every)
        if self.num_burnin_steps != 0:
            check_period("num_burnin_steps", self.num_burnin_steps)
        if self.spread_first_inverses and not self.spread_inverses:
            raise ValueError(
                "Cannot set up K-FAC: spread_first_inverses=True with spread_inverses=False. First "
                "inverses are spread over the same steps as later ones: pass spread_inverses=True, "
                "too, or leave out spread_first_inverses."
            )
        if self.inverse_delay != 0:
            self._check_delay()
        self.invert_every = called_once(self.invert_every)

    @property
    def from_identity(self) -> bool:
        """True if a block that has no inverse yet counts as a damped identity matrix.

        Without `spread_first_inverses` only refused batches leave it without.
        """
        return self.spread_first_inverses

    def _check_delay(self) -> None:
        check_period("inverse_delay", self.inverse_delay)
        if self.inverse_delay >= self.invert_every:
            raise ValueError(
                f"Cannot set up K-FAC: inverse_delay={self.inverse_delay!r}. It must be less than "
                f"invert_every={self.invert_every!r}: inverses are used before the next ones are "
                "computed."
            )
        if self.spread_inverses:
            raise ValueError(
                f"Cannot set up K-FAC: inverse_delay={self.inverse_delay!r} does not go with "
                "spread_inverses=True. Inverses are either computed in several steps or beside "
                "them: leave out one of the two."
            )

    def decay_per_update(self, decay: Scalar) -> Scalar:
        """Returns the weight of the past per update of averages, given that per step."""
        return decay_per_update(decay, self.cov_update_every)

    @property
    def variables(self) -> list[Variable]:
        """The counter of the burn-in's runs, if it exists."""
        return [] if self._burnin_counter is None else [self._burnin_counter]

    def due(self, step: Tensor) -> Due:
        """Returns the parts of a run that are due: in a burn-in, only averages."""
        averages = is_due(step, self.cov_update_every)
        spread = None
        if self.spread_inverses and self.invert_every != 1:
            spread = Spread(self.invert_every, self.spread_first_inverses)
        inverses = True if spread else is_due(step, self.invert_every)
        if not self.num_burnin_steps:
            return Due(True, averages, inverses, spread, self.inverse_delay)
        if self._burnin_counter is None:
            with tf.init_scope():
                self._burnin_counter = make_counter("burnin_counter")
        is_burnin = read(self._burnin_counter) < self.num_burnin_steps
        makes_step = tf.logical_not(is_burnin)
        return Due(
            makes_step,
            True if averages is True else tf.logical_or(is_burnin, averages),
            makes_step if inverses is True else tf.logical_and(makes_step, inverses),
            spread,
            self.inverse_delay,
            [Addition(self._burnin_counter, tf.cast(is_burnin, tf.int64))],
        )

    def separates(self, damping_interval: int) -> bool:
        """Returns True if inverses may miss a change of a damping that adapts so often.

        Args:
          damping_interval: Steps from one adaptation to the next.
        """
        is_static = isinstance(self.invert_every, numbers.Real)
        return is_static and damping_interval % self.invert_every != 0
