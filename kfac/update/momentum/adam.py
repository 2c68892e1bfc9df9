"""Momentum of gradients, preconditioned afterwards.

The velocity depends on no curvature, so that it stays meaningful when the curvature changes. Called
by the optimizer through `make_momentum`.
"""

import typing

import tensorflow as tf

from kfac._types import Tensor
from kfac.linalg import vectors
from kfac.update.momentum.base import GivenRateMomentum, Step, StepInputs


@typing.final
class AdamMomentum(GivenRateMomentum):
    """v ← βv + g, and the weights change by −αM⁻¹v."""

    def step(self, inputs: StepInputs) -> Step:
        """Computes a step; Δq = ½α² rᵀv − α r·g for r = M⁻¹v, as rᵀMr = rᵀv.

        Args:
          inputs: Gradients and curvature.
        """
        velocities = self._with_momentum(inputs, inputs.gradients)
        raw = self._preconditioned(inputs, velocities)

        def model_change() -> Tensor:
            rate = self._rate(inputs)
            curvature = vectors.inner_product(raw, velocities, inputs.dtype)
            slope = vectors.inner_product(raw, inputs.gradients, inputs.dtype)
            return 0.5 * tf.square(rate) * curvature - rate * slope

        return self._step(inputs, raw, velocities, model_change)
