"""Momentum rules with a given learning rate, of preconditioned gradients or of gradients.

With a norm constraint a step never changes the model by more than a given amount, measured by the
(approximate) Fisher norm of the step. Called by the optimizer through `make_momentum`.

References:
  Ba, Grosse & Martens (2017), "Distributed second-order optimization using Kronecker-factored
  approximations", §5.
"""

import math
import numbers
import typing
from collections.abc import Sequence

import tensorflow as tf

from kfac._types import Scalar, Tensor
from kfac.linalg import tensor_ops, vectors
from kfac.linalg.vectors import Vector
from kfac.schedules import current
from kfac.update.momentum.base import Momentum, Step, StepInputs, add_weight_decay


class GivenRateMomentum(Momentum):
    """A rule whose learning rate α and momentum β are given."""

    def __init__(
        self,
        learning_rate: Scalar,
        momentum: Scalar | None,
        norm_constraint: Scalar | None,
        weight_decay: Scalar | None,
    ) -> None:
        """Keeps its arguments.

        Args:
          learning_rate: α.
          momentum: β; None or the number 0 means none, and that no velocities are kept.
          norm_constraint: c > 0 bounds the squared Fisher norm of a step, or None.
          weight_decay: Coefficient, or None.
        """
        self._learning_rate = learning_rate
        self._momentum = momentum
        self._norm_constraint = norm_constraint
        self._weight_decay = weight_decay

    def make_variables(self) -> None:
        """Does nothing: there are none."""

    @property
    def learning_rate(self) -> Scalar:
        """α as it was given."""
        return current(self._learning_rate)

    @property
    def momentum(self) -> Scalar:
        """β as it was given."""
        return current(self._momentum)

    @property
    def takes_packed(self) -> bool:
        """True: a step is a sum of multiples of vectors."""
        return True

    @property
    def keeps_velocities(self) -> bool:
        """True if there is momentum."""
        is_zero = isinstance(self._momentum, numbers.Real) and math.isclose(self._momentum, 0)
        return self._momentum is not None and not is_zero

    def _shortened(
        self, rate: Tensor, vector: Sequence[Vector], products: Sequence[Vector]
    ) -> list[Vector]:
        """Returns M⁻¹x for a vector x, shortened to the norm constraint, which must be given."""
        coefficient = norm_constraint_coefficient(
            vectors.inner_product(products, vector, rate.dtype),
            rate,
            tensor_ops.as_scalar(self._norm_constraint, rate.dtype),
        )
        return vectors.scale(coefficient, products)


def norm_constraint_coefficient(
    squared_norm: Tensor, learning_rate: Tensor, norm_constraint: Tensor
) -> Tensor:
    """Returns min(1, √(c / (α² dᵀg))), the factor by which to shorten a step α·d.

    dᵀg is the squared Fisher norm of d, since d = M⁻¹g gives dᵀMd = dᵀg.

    Args:
      squared_norm: dᵀg, shape []. Zero, as before the first inverse, gives 1.
      learning_rate: α, shape [].
      norm_constraint: c > 0, shape [].

    Returns:
      A factor in (0, 1], shape [].
    """
    size = tf.square(learning_rate) * squared_norm
    is_long = size > norm_constraint
    one = tf.ones_like(size)
    return tf.sqrt(tf.where(is_long, norm_constraint / tf.where(is_long, size, one), one))


@typing.final
class RegularMomentum(GivenRateMomentum):
    """v ← βv + M⁻¹g, and the weights change by −αv."""

    @property
    def multiplies_for_model(self) -> bool:
        """True: Δq takes the product Mu."""
        return True

    def step(self, inputs: StepInputs) -> Step:
        """Computes a step; Δq = ½uᵀMu + g·u − ½(λ − λ')|u|² for u = −αv.

        λ' is the `model_damping` of the inputs.
        """
        dtype = inputs.damping.dtype
        rate = tensor_ops.as_scalar(self._learning_rate, dtype)
        products = inputs.precondition(inputs.gradient_parts)
        velocities = products
        if self._norm_constraint is not None:
            velocities = self._shortened(rate, inputs.gradients, products)
        if self.keeps_velocities:
            momentum = tensor_ops.as_scalar(self._momentum, dtype)
            velocities = vectors.add_scaled(velocities, momentum, inputs.velocities)

        def model_change() -> Tensor:
            update = vectors.scale(-rate, velocities)
            curvature = vectors.inner_product(update, inputs.multiply(update), dtype)
            slope = vectors.inner_product(update, inputs.gradients, dtype)
            size = vectors.squared_norm(update, dtype)
            surplus = inputs.damping - inputs.model_damping
            return 0.5 * curvature + slope - 0.5 * surplus * size

        return Step(
            raw=add_weight_decay(velocities, inputs.weights, self._weight_decay),
            rate=rate,
            velocities=velocities if self.keeps_velocities else [],
            model_change=model_change,
            # What the weights' decay adds to velocities that are not finite is not finite, either.
            bounds_velocities=True,
        )


@typing.final
class AdamMomentum(GivenRateMomentum):
    """v ← βv + g, and the weights change by −αM⁻¹v.

    The velocity depends on no curvature, so that it stays meaningful when the curvature changes.
    """

    def step(self, inputs: StepInputs) -> Step:
        """Computes a step; Δq = ½α² rᵀv − α r·g for r = M⁻¹v, as rᵀMr = rᵀv."""
        dtype = inputs.damping.dtype
        rate = tensor_ops.as_scalar(self._learning_rate, dtype)
        velocities = inputs.gradients
        if self.keeps_velocities:
            momentum = tensor_ops.as_scalar(self._momentum, dtype)
            velocities = vectors.add_scaled(velocities, momentum, inputs.velocities)
        raw = inputs.precondition(inputs.packing.unpack(velocities))
        if self._norm_constraint is not None:
            raw = self._shortened(rate, velocities, raw)

        def model_change() -> Tensor:
            curvature = vectors.inner_product(raw, velocities, dtype)
            slope = vectors.inner_product(raw, inputs.gradients, dtype)
            return 0.5 * tf.square(rate) * curvature - rate * slope

        return Step(
            raw=add_weight_decay(raw, inputs.weights, self._weight_decay),
            rate=rate,
            velocities=velocities if self.keeps_velocities else [],
            model_change=model_change,
        )
