"""The change of the weights by a step: nothing where the step is not finite, or not to be made.

Called by the step.
"""

import functools
import typing
from collections.abc import Callable, Sequence
from typing import NamedTuple

import tensorflow as tf

from kfac._types import DType, Operation, Tensor, Variable
from kfac.damping.interface import StepPrediction
from kfac.linalg import vectors
from kfac.linalg.tensor_ops import all_finite, all_true
from kfac.linalg.vectors import Vector
from kfac.state import Assignment, group
from kfac.update.momentum import Step, StepInputs
from kfac.variables import CapturedVariable, components_of

v1 = tf.compat.v1


class Update(NamedTuple):
    """One update, before it is made.

    Attributes:
      changes: Amounts that are subtracted from the variables, zero unless `is_made`.
      state: New values of velocities and of the momentum rule's variables.
      is_finite: bool [], true if the update is finite.
      is_made: bool [], true if it is, and the run makes a step.
      prediction: Predicted change of the loss, by which it is judged; None if it is not.
      before: The variables and their values, if it may be taken back.
      kept_change: The assignment that keeps Δq, or nothing.
    """

    changes: list[Vector]
    state: list[Assignment]
    is_finite: Tensor
    is_made: Tensor
    prediction: StepPrediction | None = None
    before: Sequence[Assignment] = ()
    kept_change: Sequence[Assignment] = ()


def finite_update(
    step: Step, inputs: StepInputs, velocities: Sequence[Variable], makes_step: Tensor | bool
) -> Update:
    """Returns a step as an update.

    `velocities` are the variables of the velocities, if any are kept. `makes_step`, bool [] or a
    Python bool, is false if the run makes no step.
    """
    raw = step.raw if step.whole is None else [step.whole]
    others = [*([] if step.bounds_velocities else step.velocities), *(v for _, v in step.state)]
    is_finite = is_finite_step(step.rate, [*map(vectors.entries, raw)], others)
    with v1.device(is_finite.device):
        is_made = tf.logical_and(is_finite, makes_step)
    # α is replaced by zero. To choose between α·x and zeros, TensorFlow would keep these as
    # constants of the graph, which are as large as all weights.
    rate = tf.math.multiply_no_nan(step.rate, tf.cast(is_made, step.rate.dtype))
    rates = vectors.scalars(rate, step.raw)
    changes = [
        vectors.map_entries(functools.partial(tf.math.multiply_no_nan, y=rate_of), part)
        for rate_of, part in zip(rates, step.raw, strict=True)
    ]
    unpack = inputs.packing.unpack
    moved = map(Assignment, velocities, unpack(step.velocities)) if velocities else []
    return Update(unpack(changes), [*moved, *step.state], is_finite, is_made)


def is_finite_step(rate: Tensor, raw: Sequence[Tensor], others: Sequence[Tensor]) -> Tensor:
    """Returns bool [], true if a step α·x and other values are finite.

    The sum of squares of each part tells it, in one operation. So a part of float32 whose norm is
    above 1e19 counts as not finite, as its squares overflow. No weights would survive such a step.
    Entries of 16-bit dtypes, whose squares overflow soon, are looked at one by one. Parts are
    checked where they are; the flags meet where the first of them is. `raw` has at least one part
    of x, `others` are parts of other vectors, such as velocities, and numbers [].
    """
    flags = []
    for parts, factor in ((raw, rate), ((rate, *others), None)):
        values: list[Tensor] = []
        squares: dict[DType, list[Tensor]] = {}
        for part in parts:
            if part.shape.rank == 0 or part.dtype.size < tf.float32.size:
                values.append(part)
                continue
            with v1.device(part.device):
                squares.setdefault(part.dtype, []).append(tf.nn.l2_loss(part))
        for halves in squares.values():
            with v1.device(halves[0].device):
                values.append(tf.sqrt(2 * tf.stack(halves)))
        for value in values:
            with v1.device(value.device):
                multiple = value if factor is None else tf.cast(factor, value.dtype) * value
                flags.append(all_finite(multiple))
    return all_true(flags)


@typing.final
class DescentThen(v1.train.GradientDescentOptimizer):
    """Subtracts changes from variables, then runs other ops, all as one training op."""

    def __init__(
        self, name: str, follow: Callable[[Sequence[Operation]], Sequence[Operation]]
    ) -> None:
        """Takes a function that is given the changing ops and returns those to wait for."""
        super().__init__(1.0, name=name)
        self._follow = follow

    def subtract(
        self,
        changes: Sequence[Vector],
        variables: Sequence[Variable],
        global_step: Variable | None,
        name: str | None,
    ) -> Operation:
        """Returns an op of this name that subtracts a change from each variable, and does the rest.

        The global step is incremented by one in the end; no captured variables go with it.
        """
        pairs = list(zip(changes, variables, strict=True))
        if not any(isinstance(variable, CapturedVariable) for variable in variables):
            return self.apply_gradients(pairs, global_step=global_step, name=name)
        # TensorFlow's optimizers refuse mirrored variables where all of them are to change.
        changed = [
            _subtract(component, change)
            for change, variable in pairs
            for component in components_of(variable)
        ]
        return group(*self._follow(changed), name=name)

    def _finish(self, update_ops: Sequence[Operation], name_scope: str) -> Operation:
        return super()._finish(self._follow(update_ops), name_scope)


def _subtract(variable: Variable, change: Vector) -> Operation:
    """Returns an op that subtracts a change from a resource variable."""
    with v1.device(variable.device):
        if isinstance(change, tf.IndexedSlices):
            return tf.raw_ops.ResourceScatterSub(
                resource=variable.handle, indices=change.indices, updates=change.values
            )
        one = tf.constant(1, change.dtype)
        return tf.raw_ops.ResourceApplyGradientDescent(var=variable.handle, alpha=one, delta=change)
