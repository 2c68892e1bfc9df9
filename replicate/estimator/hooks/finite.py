"""Checks that loss and variables are finite.

Owns two checks that stop training: of the loss after each step, and of the trainable variables
before each save, so that the newest checkpoint is always finite. `replicate.TowerOptimizer` checks
gradients; a step that it skips is logged here and is no error.
"""

import math

import tensorflow as tf

from replicate._types import Tensor
from replicate.errors import NonFiniteError
from replicate.estimator.hooks.readings import StepReadings
from replicate.estimator.log import log

v1 = tf.compat.v1


def require_finite_loss(readings: StepReadings) -> None:
    """Raises NonFiniteError if the loss of the last step is NaN or infinite.

    A skipped step gives a warning with the name of the loss or gradient.
    """
    for description in readings.skipped:
        log.warning(
            "Skipped a batch after step %d: %s is NaN or infinite.", readings.step, description
        )
    if readings.skipped:
        return
    if readings.loss is None or math.isfinite(readings.loss):
        return
    culprits = [name for name, loss in readings.losses.items() if not math.isfinite(loss)]
    cause = f", because of {', '.join(culprits)}" if culprits else ""
    raise NonFiniteError(
        f"Training stopped at step {readings.step}: the loss {readings.loss_tensor.op.name} is "
        f"{readings.loss}{cause}. Nothing was saved since it was last finite. Lower the learning "
        "rate, or look for a division by zero or the logarithm of zero in the model or its input."
    )


class FiniteVariablesListener(v1.train.CheckpointSaverListener):
    """Refuses to save trainable variables that are not finite."""

    def __init__(self) -> None:
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
