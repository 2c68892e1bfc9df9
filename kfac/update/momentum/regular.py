"""Momentum of preconditioned gradients.

Called by the optimizer through `make_momentum`.
"""

import typing

from kfac._types import Tensor
from kfac.linalg import vectors
from kfac.update.momentum.base import GivenRateMomentum, Step, StepInputs


@typing.final
class RegularMomentum(GivenRateMomentum):
    """v ← βv + M⁻¹g, and the weights change by −αv."""

    @property
    def multiplies_for_model(self) -> bool:
        """True: Δq takes the product Mu."""
        return True

    def step(self, inputs: StepInputs) -> Step:
        """Computes a step; Δq = ½uᵀMu + g·u − ½(λ − λ')|u|² for u = −αv.

        Args:
          inputs: Gradients and curvature; λ' is its `model_damping`.
        """
        directions = self._preconditioned(inputs, inputs.gradients)
        velocities = self._with_momentum(inputs, directions)

        def model_change() -> Tensor:
            update = vectors.scale(-self._rate(inputs), velocities)
            curvature = vectors.inner_product(update, inputs.multiply(update), inputs.dtype)
            slope = vectors.inner_product(update, inputs.gradients, inputs.dtype)
            size = vectors.squared_norm(update, inputs.dtype)
            surplus = inputs.damping - inputs.model_damping
            return 0.5 * curvature + slope - 0.5 * surplus * size

        return self._step(inputs, velocities, velocities, model_change)
