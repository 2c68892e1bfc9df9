"""Loss scaling for 16-bit floats, which keeps small gradients from rounding to zero.

The backward pass starts with a factor instead of 1, as if the loss were multiplied by it. The
gradients are divided by the factor afterwards. A step that overflows is skipped and counted, and
halves the factor. Many steps without overflow double it. Used by `TowerOptimizer`.

Micikevicius et al. (2018), "Mixed Precision Training", §3.2, arXiv:1710.03740.
"""

import dataclasses
from collections.abc import Sequence

import tensorflow as tf

from model_deploy.devices import CPU
from model_deploy.gradients import gradient_values, with_values
from replicate._types import Gradient, Operation, Tensor, Variable

v1 = tf.compat.v1


@dataclasses.dataclass(frozen=True)
class DynamicLossScale:
    """Settings of a loss scale that adapts to the gradients.

    Attributes:
      initial: First factor, > 0.
      growth_steps: Steps without overflow after which the factor doubles, ≥ 1.
    """

    initial: float = 2.0**15
    growth_steps: int = 2000

    def __post_init__(self) -> None:
        """Checks the settings.

        Raises:
          ValueError: A setting is out of range.
        """
        if not 0 < self.initial < float("inf"):
            raise ValueError(f"initial must be a finite number > 0, got {self.initial!r}.")
        if self.growth_steps < 1:
            raise ValueError(f"growth_steps must be ≥ 1, got {self.growth_steps!r}.")


class LossScaling:
    """The state of a `DynamicLossScale` in one graph.

    Attributes:
      factor: Variable, float32 []: the factor of the loss.
      skipped: Variable, int64 []: steps skipped because a gradient was not finite.
    """

    def __init__(self, settings: DynamicLossScale):
        self._settings = settings
        with v1.variable_scope(None, default_name="loss_scale"):
            self.factor = _scalar("factor", tf.float32, settings.initial)
            self.skipped = _scalar("skipped_steps", tf.int64, 0)
            self._good = _scalar("good_steps", tf.int64, 0)
            v1.summary.scalar("current", self.factor)
            v1.summary.scalar("skipped", self.skipped)

    def grad_loss(self, loss: Tensor, given: Tensor | None) -> Tensor:
        """Returns the derivative of the scaled loss by the loss: the start of the backward pass.

        `given` is the start without a loss scale; None: 1. The loss itself, a scalar, is not
        scaled, because some optimizers read it.
        """
        factor = tf.cast(self.factor, loss.dtype)
        return factor if given is None else factor * given

    def unscaled(self, gradient: Gradient, variable: Variable) -> Gradient:
        """Divides a gradient by the factor, in the variable's type and on the gradient's device."""
        return _divided(gradient, self.factor, variable.dtype.base_dtype)

    def can_shrink(self) -> Tensor:
        """Returns True if the factor is above its least value, 1. A boolean scalar."""
        return self.factor.read_value() > 1.0

    def adapt(self, finite: Tensor) -> Operation:
        """Returns the operation that adapts the factor to finite gradients, or others."""
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
    """Returns True if all gradients are finite, a boolean scalar on the CPU."""
    finite = [_is_finite(gradient_values(gradient)) for gradient, _ in gradients_and_variables]
    with v1.device(CPU):
        return tf.reduce_all(tf.stack(finite))


def _is_finite(values: Tensor) -> Tensor:
    with v1.device(values.device):
        return tf.reduce_all(tf.math.is_finite(values))


def _scalar(name: str, dtype: tf.DType, value: float) -> Variable:
    initializer = tf.constant_initializer(value)
    with v1.device(CPU):
        return v1.get_variable(name, [], dtype, initializer, trainable=False)


def _divided(gradient: Gradient, factor: Tensor, dtype: tf.DType) -> Gradient:
    values = gradient_values(gradient)
    with v1.device(values.device):
        return with_values(gradient, tf.cast(values, dtype) / tf.cast(factor, dtype))
