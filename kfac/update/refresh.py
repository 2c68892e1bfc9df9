"""Refresh policies: when averages are folded and inverses refreshed, relative to the steps.

The step asks a policy in each graph. The policy answers with a value and calls nobody: the step
does what is due. Here are the answer, the interface of policies, that of optimizers whose users, or
threads, update the curvature, and that of periods. Another is in `kfac.update.cluster_refresh`.
"""

import abc
import dataclasses
import functools
import numbers
import typing
from collections.abc import Sequence
from typing import NamedTuple

import tensorflow as tf

from kfac._types import Scalar, Tensor, Variable
from kfac.arguments import check_period
from kfac.computed_settings import called_once
from kfac.fisher_blocks.base import FisherBlock
from kfac.fisher_factors.base import FisherFactor
from kfac.linalg import tensor_ops
from kfac.placement import assign_by_cost
from kfac.settings import KfacSettings
from kfac.state import CPU, Addition, Change, make_counter, read

v1 = tf.compat.v1


class Spread(NamedTuple):
    """A way to spread inverses: each step of a period computes a share of them.

    The first step computes all, or only its own share. In the latter case the shares are whole
    layers, the cheapest first.

    Attributes:
      period: Number of steps that they are spread over, > 1.
      first_too: True if the first step computes a share only, false if it computes all.
    """

    period: int
    first_too: bool

    def shares(
        self, blocks: Sequence[FisherBlock], factors: Sequence[FisherFactor]
    ) -> list[list[int]]:
        """Returns the numbers of the factors to invert in each step of a period, by cost."""
        costs = [factor.inverse_cost for factor in factors]
        if not self.first_too:
            return self._shares_of([[index] for index in range(len(costs))], costs)
        # The first step is slow anyway, as it prepares all later ones.
        shares = self._shares_of(_layers(blocks, factors), costs)
        return sorted(shares, key=lambda share: sum(costs[index] for index in share))

    def _shares_of(
        self, pieces: Sequence[Sequence[int]], costs: Sequence[float]
    ) -> list[list[int]]:
        """Returns shares of about equal cost, none empty; factors of a piece stay together."""
        shares: list[list[int]] = [[] for _ in range(self.period)]
        work = [sum(costs[index] for index in piece) for piece in pieces]
        for piece, step in zip(pieces, assign_by_cost(work, range(self.period)), strict=True):
            shares[step] += piece
        return [share for share in shares if share]

    def due(self, step: Tensor, count: int) -> Tensor:
        """Returns bool [count], true for the shares that are due after `step` steps, int64 []."""
        with v1.device(CPU):
            due = tf.equal(step % self.period, tf.constant(list(range(count)), step.dtype))
            return due if self.first_too else tf.logical_or(tf.equal(step, 0), due)


def _layers(blocks: Sequence[FisherBlock], factors: Sequence[FisherFactor]) -> list[list[int]]:
    """Returns the numbers of the factors that keep inverses, by layer; each of them once."""
    left = {each: number for number, each in enumerate(factors) if each.inverses}
    layers = [[left.pop(factor) for factor in block.factors if factor in left] for block in blocks]
    return [layer for layer in [*layers, list(left.values())] if layer]


class Due(NamedTuple):
    """Parts of a run that are due. Conditions are bool [], or a Python bool if they never differ.

    Attributes:
      step: True to make a step. If it is false the run changes no weights and counts no step.
      averages: True to fold the batch into the averages; a Python False builds nothing, nor does
        the run then refresh inverses.
      inverses: True to refresh the inverses, after the averages; false where `step` is.
      spread: Says which of them it refreshes; None means all.
      delay: Steps from the averages that inverses are computed from to the first use of these
        inverses. 0 means that the step uses the inverses of its own averages.
      state: Changes of the policy's variables, to be made after the step.
      summaries_wait: True if summaries come after all that the run has refreshed; false if another
        thread writes them, which must not make the step, too.
    """

    step: Tensor | bool = True
    averages: Tensor | bool = False
    inverses: Tensor | bool = False
    spread: Spread | None = None
    delay: int = 0
    state: Sequence[Change] = ()
    summaries_wait: bool = True


class RefreshPolicy(abc.ABC):
    """A rule for the times at which the curvature is updated, and its settings."""

    @property
    @abc.abstractmethod
    def from_identity(self) -> bool:
        """True if a block that has no inverse yet counts as a damped identity matrix.

        If it is false, products with its inverse are zero.
        """

    @property
    def variables(self) -> list[Variable]:
        """State of the policy. Empty before it is made."""
        return []

    def decay_per_update(self, decay: Scalar) -> Scalar:
        """Returns the weight of the past per update of averages, given that per step."""
        return decay

    @abc.abstractmethod
    def due(self, step: Tensor) -> Due:
        """Returns the parts of a run that are due after `step` steps, int64 []."""


@typing.final
class NeverDue(RefreshPolicy):
    """Nothing but the step is ever due: users, or threads, update the curvature."""

    from_identity = True

    def due(self, step: Tensor) -> Due:
        """Returns a step with the inverses as they are."""
        del step
        return Due()


BY_CALLER = NeverDue()
"""The policy of an optimizer whose user updates the curvature."""


@typing.final
@dataclasses.dataclass(eq=False)
class RefreshPeriods(RefreshPolicy):
    """Averages, then inverses, each when its period is over, and a burn-in before.

    The order in a run is averages, inverses, step; each uses the results of the one before. In a
    burn-in only the averages are updated. A step that reads no averages itself is computed beside
    their update, but made after it.

    The attributes are those of `kfac.settings.KfacSettings` that have their names.
    """

    invert_every: Scalar
    cov_update_every: int
    num_burnin_steps: int
    spread_inverses: bool
    spread_first_inverses: bool = KfacSettings.spread_first_inverses
    inverse_delay: int = KfacSettings.inverse_delay
    early_refresh: bool = KfacSettings.early_refresh
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
        if self.early_refresh and fixes_period:
            raise ValueError(
                "Cannot set up K-FAC: early_refresh=True does not go with spread_inverses or "
                "inverse_delay, whose inverses take several steps. Leave out one of the two."
            )
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
        early = self.early_refresh
        averages = is_due(step, self.cov_update_every, early)
        spread = None
        if self.spread_inverses and self.invert_every != 1:
            spread = Spread(self.invert_every, self.spread_first_inverses)
        inverses = True if spread else is_due(step, self.invert_every, early)
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
        """Returns True if inverses may miss a change of a damping that adapts so often."""
        is_static = isinstance(self.invert_every, numbers.Real)
        return is_static and damping_interval % self.invert_every != 0


def is_due(step: Tensor, period: Scalar, early: bool = False) -> Tensor | bool:
    """Returns a bool, true if a task that runs every `period` steps is due.

    The test runs on the CPU, which decides which ops run. A period of 1 gives Python's True.

    Args:
      step: int64 []; the task is due at step 0.
      period: Steps between two runs, ≥ 1; smaller Tensors count as 1.
      early: True if it is due at the powers of two before the first period is over, too.
    """
    if isinstance(period, int) and period == 1:
        return True
    with v1.device(CPU):
        least = (
            period
            if isinstance(period, int)
            else tf.maximum(tensor_ops.as_scalar(period, step.dtype), 1)
        )
        due = tf.equal(step % least, 0)
        if not early:
            return due
        is_power = tf.equal(tf.bitwise.bitwise_and(step, step - 1), 0)
        return tf.logical_or(due, tf.logical_and(is_power, step < least))


def decay_per_update(decay: Scalar, steps: int) -> Scalar:
    """Returns the weight of the past per update, from the weight per step, in [0, 1].

    `steps` are those from one update to the next, ≥ 1.
    """
    if steps == 1:
        return decay
    if isinstance(decay, numbers.Real):
        return float(decay) ** steps
    return functools.partial(_power, called_once(decay), steps)


def _power(decay: Scalar, exponent: int) -> Tensor:
    return tensor_ops.as_scalar(decay, tf.float64) ** exponent
