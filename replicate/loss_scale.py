"""Loss scaling for 16-bit floats: keeps small gradients from rounding to zero.

The backward pass starts with a factor instead of 1, as if the loss were multiplied by it, and the
gradients are divided by it afterwards. The factor follows the gradients: it is halved in a step
that overflows, which is skipped and counted, and doubled after many steps that did not. Used by
`TowerOptimizer`.

Micikevicius et al. (2018), "Mixed Precision Training", §3.2, arXiv:1710.03740.
"""

import dataclasses
from collections.abc import Sequence

import tensorflow as tf

from model_deploy.gradients import gradient_values, with_values
from replicate._types import Gradient, Operation, Tensor, Variable

v1 = tf.compat.v1


@dataclasses.dataclass(frozen=True)
class DynamicLossScale:
    """How the factor of the loss follows the gradients.

    Attributes:
      initial: The first factor, > 0.
      growth_steps: Steps without overflow after which the factor is doubled, ≥ 1.
    """

    initial: float = 2.0**15
    growth_steps: int = 2000

    def __post_init__(self) -> None:
        """Checks the settings.

        Raises:
          ValueError: One is out of range.
        """
        if not 0 < self.initial < float("inf"):
            raise ValueError(f"initial must be a finite number > 0, got {self.initial!r}.")
        if self.growth_steps < 1:
            raise ValueError(f"growth_steps must be ≥ 1, got {self.growth_steps!r}.")


class LossScaling:
    """The state of a `DynamicLossScale` in one graph.

    Attributes:
      factor: Variable, float32 []: what the loss is multiplied by.
      skipped: Variable, int64 []: steps skipped because a gradient was not finite.
    """

    def __init__(self, settings: DynamicLossScale):
        """Makes the variables and their summaries."""
        self._settings = settings
        with v1.variable_scope(None, default_name="loss_scale"):
            self.factor = _scalar("factor", tf.float32, settings.initial)
            self.skipped = _scalar("skipped_steps", tf.int64, 0)
            self._good = _scalar("good_steps", tf.int64, 0)
            v1.summary.scalar("current", self.factor)
            v1.summary.scalar("skipped", self.skipped)

    def grad_loss(self, loss: Tensor, given: Tensor | None) -> Tensor:
        """Returns what the backward pass starts with: the gradient of the scaled loss by the loss.

        The loss itself stays as it is, for optimizers that look at it.

        Args:
          loss: The loss to differentiate, a scalar.
          given: What the backward pass would start with otherwise; None means 1.
        """
        factor = tf.cast(self.factor, loss.dtype)
        return factor if given is None else factor * given

    def unscaled(self, gradient: Gradient, variable: Variable) -> Gradient:
        """Returns the gradient of the loss that was not scaled, in the variable's type.

        Args:
          gradient: That of the scaled loss.
          variable: What it is the gradient of.
        """
        return _divided(gradient, self.factor, variable.dtype.base_dtype)

    def can_shrink(self) -> Tensor:
        """Returns whether the factor is above its least value, a boolean scalar."""
        return self.factor.read_value() > 1.0

    def update(self, finite: Tensor) -> Operation:
        """Returns the operation that moves the factor after a step.

        Args:
          finite: Boolean scalar: whether all of the step's gradients were finite.
        """
        settings = self._settings
        good = tf.where(finite, self._good.read_value() + 1, 0)
        grown = good >= settings.growth_steps
        factor = self.factor.read_value()
        factor = tf.where(finite, tf.where(grown, factor * 2.0, factor), factor / 2.0)
        with v1.control_dependencies([good, factor]):
            return v1.group(
                v1.assign(self.factor, tf.clip_by_value(factor, 1.0, 2.0**24)),
                v1.assign(self._good, tf.where(grown, tf.zeros_like(good), good)),
                v1.assign_add(self.skipped, tf.cast(tf.logical_not(finite), tf.int64)),
            )


def all_finite(gradients_and_variables: Sequence[tuple[Gradient, Variable]]) -> Tensor:
    """Returns whether no gradient has a NaN or an infinity, a boolean scalar."""
    finite = [
        tf.reduce_all(tf.math.is_finite(gradient_values(gradient)))
        for gradient, _ in gradients_and_variables
    ]
    return tf.reduce_all(tf.stack(finite))


def _scalar(name: str, dtype: tf.DType, value: float) -> Variable:
    initializer = tf.constant_initializer(value)
    return v1.get_variable(name, [], dtype, initializer, trainable=False)


def _divided(gradient: Gradient, factor: Tensor, dtype: tf.DType) -> Gradient:
    values = tf.cast(gradient_values(gradient), dtype) / tf.cast(factor, dtype)
    return with_values(gradient, values)
