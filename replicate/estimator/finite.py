"""Guards against numbers that are not finite.

Owns the two places where training stops before a NaN can do lasting harm: the loss of each step,
and the trainable variables right before they are saved, so that the newest checkpoint is always
finite. Gradients are the business of `replicate.TowerOptimizer`.
"""

import math
from typing import Any

import tensorflow as tf

from replicate._types import Tensor
from replicate.errors import NonFiniteError
from replicate.estimator.steps import StepReadings

v1 = tf.compat.v1


class FiniteLossHook(v1.train.SessionRunHook):
    """Stops training at the first step whose loss is NaN or infinite."""

    def __init__(self, readings: StepReadings):
        """Takes the readings to watch."""
        self._readings = readings

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Raises NonFiniteError if the loss is not finite."""
        del run_context, run_values
        loss = self._readings.loss
        if loss is None or math.isfinite(loss):
            return
        name = self._readings.loss_tensor.op.name
        raise NonFiniteError(
            f"Training stopped at step {self._readings.step}: the loss {name} is {loss}. Nothing "
            "was saved since it was last finite. Lower the learning rate, or look for a "
            "division by zero or the logarithm of zero in the model or its input."
        )


class FiniteVariablesListener(v1.train.CheckpointSaverListener):
    """Refuses to save trainable variables that are not finite."""

    def __init__(self) -> None:
        """Starts without a graph."""
        self._finite: dict[str, Tensor] = {}

    def begin(self) -> None:
        """Adds one check per trainable variable to the graph."""
        self._finite = {
            variable.op.name: tf.reduce_all(tf.math.is_finite(variable))
            for variable in v1.trainable_variables()
            if variable.dtype.is_floating
        }

    def before_save(self, session: v1.Session, global_step_value: int) -> None:
        """Raises NonFiniteError, naming the variables, if any is not finite."""
        finite = session.run(self._finite)
        bad = sorted(name for name, is_finite in finite.items() if not is_finite)
        if bad:
            raise NonFiniteError(
                f"Training stopped at step {global_step_value}: not finite: {', '.join(bad)}. This "
                "step was not saved, the newest checkpoint is finite. Lower the learning rate, or "
                "clip the gradients."
            )
