"""The periodic refresh policy: averages and inverses every so many steps, after a burn-in.

The order in a run is averages, inverses, step; each uses the results of the one before. In a
burn-in only the averages are updated. A step that reads no averages itself is computed beside their
update, but made after it.

Inverses can be spread: each step of a period computes a share of them. The first step then computes
all, or only its own share. In the latter case the shares are whole layers, the cheapest first.
"""

import dataclasses
import numbers
import typing
from collections.abc import Sequence

import tensorflow as tf

from kfac._types import Scalar, Tensor, Variable
from kfac.arguments import check_period
from kfac.fisher_blocks.base import FisherBlock
from kfac.fisher_factors.base import FisherFactor
from kfac.placement import assign_by_cost
from kfac.schedules import called_once, decay_per_update, is_due
from kfac.state import CPU, Addition, make_counter, read
from kfac.update.refresh import Due, InversesDue, RefreshPolicy

v1 = tf.compat.v1


@typing.final
@dataclasses.dataclass(eq=False)
class RefreshPeriods(RefreshPolicy):
    """Averages, then inverses, each when its period is over.

    Attributes:
      invert_every: Steps between two computations of an inverse, ≥ 1: an int, an int Tensor or
        Variable [], or a function that returns one of these.
      cov_update_every: Steps between two updates of the averages, ≥ 1.
      num_burnin_steps: Number of runs at the beginning that only update the averages.
      spread_inverses: True if each step computes some of the inverses, and not one step all.
      spread_first_inverses: True if this holds from the first step on, false if that computes all.
      inverse_delay: Steps from the averages that inverses are computed from to the first use of
        these inverses, ≥ 0 and < `invert_every`. Above 0 they are computed beside the steps.
    """

    invert_every: Scalar
    cov_update_every: int
    num_burnin_steps: int
    spread_inverses: bool
    spread_first_inverses: bool = False
    inverse_delay: int = 0
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
        """Returns whether to make a step or to burn in, and whether to fold the batch."""
        averages = is_due(step, self.cov_update_every)
        if not self.num_burnin_steps:
            return Due(averages=averages)
        if self._burnin_counter is None:
            with tf.init_scope():
                self._burnin_counter = make_counter("burnin_counter")
        is_burnin = read(self._burnin_counter) < self.num_burnin_steps
        return Due(
            step=tf.logical_not(is_burnin),
            averages=True if averages is True else tf.logical_or(is_burnin, averages),
            state=[Addition(self._burnin_counter, tf.cast(is_burnin, tf.int64))],
        )

    def inverses_due(
        self,
        step: Tensor,
        makes_step: Tensor | bool,
        blocks: Sequence[FisherBlock],
        factors: Sequence[FisherFactor],
    ) -> InversesDue:
        """Returns the inverses that are due: all, in their period's first step, or a share."""
        if not self.spread_inverses or self.invert_every == 1:
            due = _both(makes_step, is_due(step, self.invert_every))
            return InversesDue(due, delay=self.inverse_delay)
        shares = self._shares(blocks, factors)
        with v1.device(CPU):
            numbers = tf.constant(list(range(len(shares))), step.dtype)
            due = tf.equal(step % self.invert_every, numbers)
            if not self.spread_first_inverses:
                due = tf.logical_or(tf.equal(step, 0), due)
            return InversesDue(_both(makes_step, due), shares)

    def separates(self, damping_interval: int) -> bool:
        """Returns True if inverses may miss a change of a damping that adapts so often.

        Args:
          damping_interval: Steps from one adaptation to the next.
        """
        is_static = isinstance(self.invert_every, numbers.Real)
        return is_static and damping_interval % self.invert_every != 0

    def _shares(
        self, blocks: Sequence[FisherBlock], factors: Sequence[FisherFactor]
    ) -> list[list[int]]:
        """Returns the numbers of the factors to invert in each step of a period, by cost."""
        costs = [factor.inverse_cost for factor in factors]
        if not self.spread_first_inverses:
            return _shares_of([[index] for index in range(len(costs))], costs, self.invert_every)
        shares = _shares_of(_layers(blocks, factors), costs, self.invert_every)
        # The first step is slow anyway, as it prepares all later ones.
        return sorted(shares, key=lambda share: sum(costs[index] for index in share))


def _layers(blocks: Sequence[FisherBlock], factors: Sequence[FisherFactor]) -> list[list[int]]:
    """Returns the numbers of the factors that keep inverses, by layer; each of them once."""
    left = {each: number for number, each in enumerate(factors) if each.inverses}
    layers = [[left.pop(factor) for factor in block.factors if factor in left] for block in blocks]
    return [layer for layer in [*layers, list(left.values())] if layer]


def _shares_of(
    pieces: Sequence[Sequence[int]], costs: Sequence[float], period: int
) -> list[list[int]]:
    """Returns shares for the steps of a period, about equally costly; none is empty.

    Args:
      pieces: Numbers of the factors that stay together.
      costs: Cost of each factor.
      period: Number of steps.
    """
    shares: dict[str, list[int]] = {str(step): [] for step in range(period)}
    work = [sum(costs[index] for index in piece) for piece in pieces]
    for piece, step in zip(pieces, assign_by_cost(work, list(shares)), strict=True):
        shares[step] += piece
    return [share for share in shares.values() if share]


def _both(first: Tensor | bool, second: Tensor | bool) -> Tensor | bool:
    if first is True:
        return second
    return first if second is True else tf.logical_and(first, second)
