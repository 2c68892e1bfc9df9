"""Momentum rules: their interface, and those with a given learning rate.

A rule turns gradients and velocities into a step and new velocities. It assigns nothing: the
optimizer decides if the step is made. With a norm constraint a step never changes the model by more
than a given amount, measured by the (approximate) Fisher norm of the step. Called by the optimizer.

References:
  Ba, Grosse & Martens (2017), "Distributed second-order optimization using Kronecker-factored
  approximations", §5.
"""

import abc
import math
import numbers
import typing
from collections.abc import Callable, Sequence
from typing import NamedTuple

import tensorflow as tf

from kfac._types import Scalar, Tensor, Variable
from kfac.computed_settings import current
from kfac.linalg import tensor_ops, vectors
from kfac.linalg.vectors import Packing, Vector, as_dense, scalars
from kfac.state import Assignment


class StepInputs(NamedTuple):
    """The inputs of one step.

    Attributes:
      gradients: g, of the mean loss, one part per variable, or packed for a rule that takes such;
        some may be IndexedSlices. All vectors have the same parts.
      gradient_parts: g, not packed: the Tensors as they were computed, by which blocks find faster
        ways to multiply them.
      variables: θ.
      weights: Returns θ as it is now, as a vector; for variables that do not decay it has zeros.
        For a reference variable it returns the memory of the variable, not a copy. So compute the
        step with it, and never return it as a part of the step.
      velocities: v, read before the step; empty for a rule that keeps none. For a rule that takes
        packed vectors, they may also be the memory of reference variables, as in `weights`.
      packing: The way in which parts are packed.
      precondition: Returns M⁻¹x, as a vector, for the parts of a vector x, which are not packed.
      multiply: Returns Mx for a vector x.
      damping: λ, shape [], of at least float32. Its dtype is that of all scalars.
      model_damping: Part of λ that belongs to the model of the loss, shape []: as for a penalty
        ½λ'|θ|². The rest of λ is only to keep steps short.
    """

    gradients: list[Vector]
    gradient_parts: list[Vector]
    variables: list[Variable]
    weights: Callable[[], list[Tensor]]
    velocities: list[Tensor]
    packing: Packing
    precondition: Callable[[Sequence[Vector]], list[Vector]]
    multiply: Callable[[Sequence[Vector]], list[Vector]]
    damping: Tensor
    model_damping: Tensor


class Step(NamedTuple):
    """One update, before it is made.

    Attributes:
      raw: Vector that is multiplied by the rate and subtracted from the variables; packed, as the
        velocities are, if the inputs were.
      rate: Shape [].
      velocities: The new velocities; empty for a rule that keeps none.
      model_change: Returns Δq, how much the quadratic model of the loss changes, shape [].
      state: New values of the rule's own variables.
      bounds_velocities: True if `raw` is finite only if the new velocities are.
      whole: The entries of `raw` in one Tensor [n], where a rule has it; else None.
    """

    raw: list[Vector]
    rate: Tensor
    velocities: list[Tensor]
    model_change: Callable[[], Tensor]
    state: Sequence[Assignment] = ()
    bounds_velocities: bool = False
    whole: Tensor | None = None


class Momentum(abc.ABC):
    """A momentum rule."""

    @property
    @abc.abstractmethod
    def learning_rate(self) -> Scalar:
        """The rate as it was given, or as it was last chosen."""

    @property
    @abc.abstractmethod
    def momentum(self) -> Scalar:
        """The momentum as it was given, or as it was last chosen."""

    @property
    @abc.abstractmethod
    def keeps_velocities(self) -> bool:
        """True if there is a velocity for each variable."""

    @property
    def takes_packed(self) -> bool:
        """True if it does the same to all parts, so that vectors may be packed."""
        return False

    @property
    def knows_model_change(self) -> bool:
        """True if Δq of every step is known at next to no cost."""
        return False

    @property
    def multiplies_for_model(self) -> bool:
        """True if Δq takes a product with M, and so depends on the averages."""
        return False

    @property
    def variables(self) -> list[Variable]:
        """The rule's own state."""
        return []

    @property
    def summaries(self) -> dict[str, Scalar]:
        """Values to show, by name."""
        return {}

    @abc.abstractmethod
    def make_variables(self) -> None:
        """Makes `variables`, once."""

    @abc.abstractmethod
    def step(self, inputs: StepInputs) -> Step:
        """Computes a step."""


def add_weight_decay(
    parts: Sequence[Vector], weights: Callable[[], list[Tensor]], coefficient: Scalar | None
) -> list[Vector]:
    """Returns x + cθ for each vector x and variable θ; dense, as all weights decay.

    It is added to preconditioned gradients, so that what decays does not depend on the curvature:
    Zhang, Wang, Xu & Grosse (2019), arXiv:1810.12281. That is not the gradient of |θ|²: see
    `l2_reg` of the optimizer for a penalty.

    Args:
      parts: Preconditioned gradients, or velocities made of such.
      weights: Reads θ now, in the same parts; see `StepInputs`.
      coefficient: c ≥ 0; None means not to decay, and leaves sparse vectors sparse.
    """
    if coefficient is None:
        return list(parts)
    decays = zip(parts, scalars(coefficient, parts), weights(), strict=True)
    return [as_dense(x) + c * tf.cast(weight, x.dtype) for x, c, weight in decays]


class GivenRateMomentum(Momentum):
    """A rule whose learning rate α and momentum β are given."""

    takes_packed = True  # A step is a sum of multiples of vectors.

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

    dᵀg is the squared Fisher norm of d, since d = M⁻¹g gives dᵀMd = dᵀg. Zero, as before the first
    inverse, gives 1. All have shape [].
    """
    size = tf.square(learning_rate) * squared_norm
    is_long = size > norm_constraint
    one = tf.ones_like(size)
    return tf.sqrt(tf.where(is_long, norm_constraint / tf.where(is_long, size, one), one))


@typing.final
class RegularMomentum(GivenRateMomentum):
    """v ← βv + M⁻¹g, and the weights change by −αv."""

    multiplies_for_model = True  # Δq takes the product Mu.

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
