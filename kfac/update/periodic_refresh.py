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
from typing import NamedTuple

import tensorflow as tf

from kfac._types import GradsAndVars, Operation, Scalar, Tensor, Variable
from kfac.arguments import check_period
from kfac.estimator import FisherEstimator
from kfac.placement import assign_by_cost
from kfac.schedules import called_once, decay_per_update, is_due
from kfac.settings import KfacSettings
from kfac.state import (
    CPU,
    Assignment,
    assign_all,
    group,
    known_after,
    make_counter,
    read,
)
from kfac.update.delayed_inverses import DelayedInverses
from kfac.update.refresh import RefreshPolicy, RefreshSettings
from kfac.update.step import KfacStep, StepConditions

v1 = tf.compat.v1


@typing.final
@dataclasses.dataclass(frozen=True)
class RefreshPeriods(RefreshSettings):
    """Settings of the periodic refresh policy.

    The attributes are those of `kfac.settings.KfacSettings` that have their names.
    """

    invert_every: Scalar
    cov_update_every: int
    num_burnin_steps: int
    spread_inverses: bool
    spread_first_inverses: bool = KfacSettings.spread_first_inverses
    inverse_delay: int = KfacSettings.inverse_delay

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

    def policy(self, step: KfacStep, estimator: FisherEstimator, name: str) -> "PeriodicRefresh":
        """Returns the policy."""
        del name
        return PeriodicRefresh(step, estimator, self)

    def separates(self, damping_interval: int) -> bool:
        """Returns True if inverses may miss a change of a damping that adapts so often.

        Args:
          damping_interval: Steps from one adaptation to the next.
        """
        is_static = isinstance(self.invert_every, numbers.Real)
        return is_static and damping_interval % self.invert_every != 0


class _Due(NamedTuple):
    """Parts of a run; each a bool [], or a Python True where it never differs.

    Attributes:
      step: True to make a step, False to burn in.
      averages: True to update the averages.
    """

    step: Tensor | bool
    averages: Tensor | bool


class _Updates(NamedTuple):
    """Ops that refresh the curvature when that is due.

    Attributes:
      averages: Updates the averages.
      inverses: Updates the inverses, after the averages. Need not wait for these otherwise.
      makes_step: True if the run makes a step; see `StepConditions`.
    """

    averages: Operation
    inverses: Operation
    makes_step: Tensor | bool


@typing.final
class PeriodicRefresh(RefreshPolicy):
    """Updates averages, then inverses, before the step, each when it is due."""

    def __init__(self, step: KfacStep, estimator: FisherEstimator, periods: RefreshPeriods) -> None:
        """Makes no ops or variables.

        Args:
          step: The step.
          estimator: The curvature.
          periods: Periods of its updates.
        """
        self._step = step
        self._estimator = estimator
        self._periods = periods
        self._invert_every = called_once(periods.invert_every)
        self._burnin_counter: Variable = None
        self._delayed: DelayedInverses | None = None

    @property
    def variables(self) -> list[Variable]:
        """The counter of the burn-in's runs and the copy of the averages, as far as they exist."""
        counters = [] if self._burnin_counter is None else [self._burnin_counter]
        return [*counters, *([] if self._delayed is None else self._delayed.variables)]

    def apply(
        self, pairs: GradsAndVars, global_step: Variable | None, name: str | None
    ) -> Operation:
        """Returns an op that updates averages and inverses if they are due, then makes one step."""
        updates = self._updates()
        conditions = StepConditions(
            makes_step=updates.makes_step, before=[updates.inverses], beside=[updates.averages]
        )
        if not self._periods.num_burnin_steps:
            return self._step.apply(pairs, conditions, global_step, name)
        step = self._step.apply(pairs, conditions)
        with v1.control_dependencies(conditions.before):
            return self._count_burnin(step, updates.makes_step, global_step, name)

    def accumulate_statistics(self) -> Operation:
        """Returns an op that adds the current batch to the sums for the next averages."""
        return self._estimator.make_accumulation_op(self._due().averages)

    def update_op(self) -> Operation:
        """Returns an op that updates averages, then inverses, each when it is due."""
        updates = self._updates()
        return group(updates.averages, updates.inverses)

    def _updates(self) -> _Updates:
        due = self._due()
        averages = self._estimator.make_cov_update_op(due.averages, should_decay=due.step)
        with (
            v1.control_dependencies([averages] if self._step.reads_averages else []),
            v1.control_dependencies([self._step.prepare_damping(due.step)]),
        ):
            return _Updates(averages, self._update_inverses(due.step, averages), due.step)

    def _due(self) -> _Due:
        step = self._step.read_counter()
        averages = is_due(step, self._periods.cov_update_every)
        if not self._periods.num_burnin_steps:
            return _Due(True, averages)
        is_burnin = read(self._burnin_runs()) < self._periods.num_burnin_steps
        return _Due(
            step=tf.logical_not(is_burnin),
            averages=True if averages is True else tf.logical_or(is_burnin, averages),
        )

    def _burnin_runs(self) -> Variable:
        if self._burnin_counter is None:
            with tf.init_scope():
                self._burnin_counter = make_counter("burnin_counter")
        return self._burnin_counter

    def _count_burnin(
        self,
        step: Operation,
        makes_step: Tensor | bool,
        global_step: Variable | None,
        name: str | None,
    ) -> Operation:
        """Counts a run either as one of the burn-in or as a global step."""
        made = tf.cast(makes_step, tf.int64)
        runs = read(self._burnin_runs())
        with v1.control_dependencies([step, made, runs]):
            counts = [Assignment(self._burnin_runs(), runs + 1 - made)]
            if global_step is not None:
                before = read(global_step)
                counts.append(Assignment(global_step, before + tf.cast(made, before.dtype)))
            return assign_all(counts, name=name)

    def _update_inverses(self, makes_step: Tensor | bool, averages: Operation) -> Operation:
        step = self._step.read_counter()
        delay = self._periods.inverse_delay
        if delay:
            if self._delayed is None:
                self._delayed = DelayedInverses(self._estimator, self._invert_every, delay)
            return self._delayed.update(step, makes_step, averages)
        if not self._periods.spread_inverses or self._invert_every == 1:
            due = _both(makes_step, is_due(step, self._invert_every))
            return self._updated_inverses(due, averages)
        return self._updated_shares(step, makes_step, averages)

    def _updated_inverses(self, due: Tensor | bool, averages: Operation) -> Operation:
        """Updates all inverses, after the averages; if it is not due, nothing has to wait."""
        if due is not True:
            return self._estimator.make_inv_update_op(known_after(due, averages))
        with v1.control_dependencies([averages]):
            return self._estimator.make_inv_update_op(due)

    def _updated_shares(
        self, step: Tensor, makes_step: Tensor | bool, averages: Operation
    ) -> Operation:
        """Updates the shares that are due, after the averages; if none is, nothing has to wait."""
        shares = self._shares()
        with v1.device(CPU):
            numbers = tf.constant(list(range(len(shares))), step.dtype)
            due = tf.equal(step % self._invert_every, numbers)
            if not self._periods.spread_first_inverses:
                due = tf.logical_or(tf.equal(step, 0), due)
            due = _both(makes_step, due)
            due = tf.logical_and(due, known_after(tf.reduce_any(due), averages))
        return self._estimator.make_inv_update_op_by_shares(due, shares)

    def _shares(self) -> list[list[int]]:
        """Returns the numbers of the factors to invert in each step of a period, by cost."""
        costs = [factor.inverse_cost for factor in self._estimator.factors]
        if not self._periods.spread_first_inverses:
            return _shares_of([[index] for index in range(len(costs))], costs, self._invert_every)
        shares = _shares_of(self._layers(), costs, self._invert_every)
        # The first step is slow anyway, as it prepares all later ones.
        return sorted(shares, key=lambda share: sum(costs[index] for index in share))

    def _layers(self) -> list[list[int]]:
        """Returns the numbers of the factors that keep inverses, by layer; each of them once."""
        estimator = self._estimator
        left = {each: number for number, each in enumerate(estimator.factors) if each.inverses}
        layers = [
            [left.pop(factor) for factor in block.factors if factor in left]
            for block in estimator.blocks
        ]
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
