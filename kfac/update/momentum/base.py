"""Interface of the momentum rules, and the decay of weights that all of them have.

A rule turns gradients and velocities into a step and new velocities. It assigns nothing: the
optimizer decides if the step is made. Called by the optimizer.
"""

import abc
from collections.abc import Callable, Sequence
from typing import NamedTuple

import tensorflow as tf

from kfac._types import Scalar, Tensor, Variable
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
    vectors: Sequence[Vector], weights: Callable[[], list[Tensor]], coefficient: Scalar | None
) -> list[Vector]:
    """Returns x + cθ for each vector x and variable θ; dense, as all weights decay.

    It is added to preconditioned gradients, so that what decays does not depend on the curvature:
    Zhang, Wang, Xu & Grosse (2019), arXiv:1810.12281. That is not the gradient of |θ|²: see
    `l2_reg` of the optimizer for a penalty.

    Args:
      vectors: Preconditioned gradients, or velocities made of such.
      weights: Reads θ now, in the parts of the vectors; see `StepInputs`.
      coefficient: c ≥ 0; None means not to decay, and leaves sparse vectors sparse.
    """
    if coefficient is None:
        return list(vectors)
    parts = zip(vectors, scalars(coefficient, vectors), weights(), strict=True)
    return [as_dense(x) + c * tf.cast(weight, x.dtype) for x, c, weight in parts]
