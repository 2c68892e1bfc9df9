"""Momentum of preconditioned gradients.

Called by the optimizer through `make_momentum`.
"""

import typing

from kfac._types import Tensor
from kfac.linalg import vectors
from kfac.update.momentum.base import GivenRateMomentum, Problem, Step


@typing.final
class RegularMomentum(GivenRateMomentum):
    """v ← βv + M⁻¹g, and the weights change by −αv."""

    def step(self, problem: Problem) -> Step:
        """Computes a step; Δq = ½uᵀMu + g·u − ½(λ − λ')|u|² for u = −αv.

        Args:
          problem: What it starts from; λ' is its `model_damping`.
        """
        directions = self._preconditioned(problem, problem.gradients)
        velocities = self._with_momentum(problem, directions)

        def model_change() -> Tensor:
            update = vectors.scale(-self._rate(problem), velocities)
            curvature = vectors.inner_product(update, problem.multiply(update), problem.dtype)
            slope = vectors.inner_product(update, problem.gradients, problem.dtype)
            size = vectors.inner_product(update, update, problem.dtype)
            surplus = problem.damping - problem.model_damping
            return 0.5 * curvature + slope - 0.5 * surplus * size

        return self._step(problem, velocities, velocities, model_change)
