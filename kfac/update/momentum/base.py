"""Interface of the momentum rules, and the common part of rules with a given rate.

A rule turns gradients and velocities into a step and new velocities. It assigns nothing: the
optimizer decides whether the step is made. Called by the optimizer.
"""

import abc
import math
import numbers
from collections.abc import Callable, Sequence
from typing import NamedTuple

from kfac._types import DType, Scalar, Tensor, Variable
from kfac.linalg import tensor_ops, vectors
from kfac.linalg.vectors import Vector
from kfac.schedules import current
from kfac.state import Assignment
from kfac.update.norm_constraint import norm_constraint_coefficient
from kfac.update.weight_decay import add_weight_decay


class StepInputs(NamedTuple):
    """The inputs of one step.

    Attributes:
      gradients: g, of the mean loss, one part per variable; some may be IndexedSlices.
      variables: θ, in the order of all vectors.
      velocities: v, read before the step; empty for a rule that keeps none.
      precondition: Returns M⁻¹x for a vector x.
      multiply: Returns Mx for a vector x.
      damping: λ, shape [], of at least float32.
      model_damping: How much of λ belongs to the model of the loss, shape []: as for a penalty
        ½λ'|θ|². The rest of λ is only to keep steps short.
    """

    gradients: list[Vector]
    variables: list[Variable]
    velocities: list[Tensor]
    precondition: Callable[[Sequence[Vector]], list[Vector]]
    multiply: Callable[[Sequence[Vector]], list[Vector]]
    damping: Tensor
    model_damping: Tensor

    @property
    def dtype(self) -> DType:
        """Dtype for scalars."""
        return self.damping.dtype


class Step(NamedTuple):
    """One update, before it is made.

    Attributes:
      raw: What is multiplied by the rate and subtracted from the variables.
      rate: Shape [].
      velocities: The new velocities; empty for a rule that keeps none.
      model_change: Returns Δq, how much the quadratic model of the loss changes, shape [].
      state: New values of the rule's own variables.
      whole: The entries of `raw` in one Tensor [n], where a rule has it; else None.
    """

    raw: list[Vector]
    rate: Tensor
    velocities: list[Tensor]
    model_change: Callable[[], Tensor]
    state: list[Assignment]
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
        """Computes a step.

        Args:
          inputs: Gradients and curvature.
        """


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
    def keeps_velocities(self) -> bool:
        """True if there is momentum."""
        is_zero = isinstance(self._momentum, numbers.Real) and math.isclose(self._momentum, 0)
        return self._momentum is not None and not is_zero

    def _rate(self, inputs: StepInputs) -> Tensor:
        return tensor_ops.as_scalar(self._learning_rate, inputs.dtype)

    def _with_momentum(self, inputs: StepInputs, new: Sequence[Vector]) -> list[Vector]:
        """Returns βv + x for a vector x, or x where there is no momentum."""
        if not self.keeps_velocities:
            return list(new)
        momentum = tensor_ops.as_scalar(self._momentum, inputs.dtype)
        return vectors.add_scaled(new, momentum, inputs.velocities)

    def _preconditioned(self, inputs: StepInputs, given: Sequence[Vector]) -> list[Vector]:
        """Returns M⁻¹x for a vector x, shortened to the norm constraint."""
        products = inputs.precondition(given)
        if self._norm_constraint is None:
            return products
        coefficient = norm_constraint_coefficient(
            vectors.inner_product(products, given, inputs.dtype),
            self._rate(inputs),
            tensor_ops.as_scalar(self._norm_constraint, inputs.dtype),
        )
        return vectors.scale(coefficient, products)

    def _step(
        self,
        inputs: StepInputs,
        raw: Sequence[Vector],
        velocities: Sequence[Vector],
        model_change: Callable[[], Tensor],
    ) -> Step:
        return Step(
            raw=add_weight_decay(raw, inputs.variables, self._weight_decay),
            rate=self._rate(inputs),
            velocities=list(velocities) if self.keeps_velocities else [],
            model_change=model_change,
            state=[],
        )
