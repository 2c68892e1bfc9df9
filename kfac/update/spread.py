"""Inverses that are spread: each step of a period computes a share of them.

The first step computes all, or only its own share. In the latter case the shares are whole layers,
the cheapest first. Called by the step.
"""

from collections.abc import Sequence
from typing import NamedTuple

import tensorflow as tf

from kfac._types import Tensor
from kfac.fisher_blocks.base import FisherBlock
from kfac.fisher_factors.base import FisherFactor
from kfac.placement import assign_by_cost
from kfac.state import CPU


class Spread(NamedTuple):
    """A way to spread inverses.

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
