"""An update of the weights that changes nothing where the step is not finite, or not to be made.

Called by the step.
"""

from collections.abc import Sequence
from typing import NamedTuple

import tensorflow as tf

from kfac._types import DType, Tensor, Variable
from kfac.damping.model_change import ModelChange
from kfac.damping.rule import DampingRule, StepPrediction
from kfac.linalg import vectors
from kfac.linalg.vectors import Vector, is_finite_step
from kfac.state import Assignment, read
from kfac.update.momentum import Step, StepInputs

v1 = tf.compat.v1


class Update(NamedTuple):
    """One update, before it is made.

    Attributes:
      changes: Amounts that are subtracted from the variables, zero unless `is_made`.
      state: New values of velocities and of the momentum rule's variables.
      is_finite: bool [], true if the update is finite.
      is_made: bool [], true if it is, and the run makes a step.
      before: The variables and their values, if it may be taken back.
      prediction: Predicted change of the loss, by which the damping rule judges it.
      kept_change: The assignment that keeps Δq, or nothing.
    """

    changes: list[Vector]
    state: list[Assignment]
    is_finite: Tensor
    is_made: Tensor
    before: list[Assignment]
    prediction: StepPrediction | None
    kept_change: list[Assignment]

    @property
    def needed(self) -> list[Tensor]:
        """Tensors that must be known before the weights change."""
        judged = [] if self.prediction is None else list(self.prediction)
        return [*judged, *(value for _, value in [*self.before, *self.kept_change])]


def update_if_finite(
    step: Step,
    inputs: StepInputs,
    velocities: Sequence[Variable],
    makes_step: Tensor | bool,
    number: Tensor,
    damping: DampingRule,
    change: ModelChange | None,
) -> Update:
    """Returns a step as an update, with all that must be known of it before it is made.

    Args:
      step: The step.
      inputs: Of what it was computed.
      velocities: Variables of the velocities, if any are kept.
      makes_step: bool [], or a Python bool, false if the run makes no step.
      number: Number of steps before it, int64 [].
      damping: May judge it.
      change: Keeps Δq; None if it is never known.
    """
    raw = step.raw if step.whole is None else [step.whole]
    others = [*([] if step.bounds_velocities else step.velocities), *(v for _, v in step.state)]
    is_finite = is_finite_step(step.rate, [*map(vectors.entries, raw)], others)
    with v1.device(is_finite.device):
        is_made = tf.logical_and(is_finite, makes_step)
    unpack = inputs.packing.unpack
    moved = map(Assignment, velocities, unpack(step.velocities)) if velocities else []
    model_change = change.known(step.model_change) if change else step.model_change
    prediction = damping.predict(number, is_made, model_change, inputs.dtype)
    return Update(
        changes=unpack(_changes(is_made, step)),
        state=[*moved, *step.state],
        is_finite=is_finite,
        is_made=is_made,
        before=[Assignment(v, read(v)) for v in inputs.variables] if damping.may_reject else [],
        prediction=prediction,
        kept_change=change.kept(is_made, prediction, model_change) if change else [],
    )


def _changes(is_made: Tensor, step: Step) -> list[Vector]:
    """Returns α·x, or zeros if the step is not made."""
    # α is replaced by zero. To choose between α·x and zeros, TensorFlow would keep these as
    # constants of the graph, which are as large as all weights.
    rates: dict[tuple[str, DType], Tensor] = {}

    def change(entries: Tensor) -> Tensor:
        key = entries.device, entries.dtype
        if key not in rates:
            rate = tf.cast(step.rate, entries.dtype)
            rates[key] = tf.math.multiply_no_nan(rate, tf.cast(is_made, entries.dtype))
        return tf.math.multiply_no_nan(entries, rates[key])

    return [vectors.map_entries(change, part) for part in step.raw]
