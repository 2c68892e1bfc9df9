"""Refresh policies: when averages are folded and inverses refreshed, relative to the steps.

The step asks a policy in each graph. The policy answers with a value and calls nobody: the step
does what is due. Here are the answer, the interface of policies, and the policy of optimizers whose
users, or threads, update the curvature. The others are in `kfac.update.periodic_refresh` and
`cluster_refresh`.
"""

import abc
import typing
from collections.abc import Sequence
from typing import NamedTuple

import tensorflow as tf

from kfac._types import Scalar, Tensor, Variable
from kfac.fisher_blocks.base import FisherBlock
from kfac.fisher_factors.base import FisherFactor
from kfac.placement import assign_by_cost
from kfac.state import CPU, Change


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
        """Returns shares of about equal cost, none of them empty.

        Args:
          pieces: Numbers of the factors that stay together.
          costs: Cost of each factor.
        """
        shares: dict[str, list[int]] = {str(step): [] for step in range(self.period)}
        work = [sum(costs[index] for index in piece) for piece in pieces]
        for piece, step in zip(pieces, assign_by_cost(work, list(shares)), strict=True):
            shares[step] += piece
        return [share for share in shares.values() if share]

    def due(self, step: Tensor, count: int) -> Tensor:
        """Returns bool [count], true for the shares that are due after `step` steps, int64 []."""
        with tf.compat.v1.device(CPU):
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
