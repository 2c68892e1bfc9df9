"""The change of the loss that the quadratic model foretells for a step, kept in a variable.

The step keeps it, the damping rule judges by it, and users look at it. A momentum rule that chooses
its step by the model knows it for every step. Others compute it for steps that are judged.
"""

import typing
from collections.abc import Callable

import tensorflow as tf

from kfac._types import DType, Scalar, Tensor, Variable
from kfac.damping.rule import NAN, StepPrediction
from kfac.protocols import OPTIONAL_STATE
from kfac.state import CPU, Assignment, OptionalState, make_variable, read

v1 = tf.compat.v1


@typing.final
class ModelChange:
    """Δq of the last step for which it is known; NaN before the first.

    It is known for every step, or only for those to be judged.
    """

    def __init__(self, dtype: DType, every_step: bool) -> None:
        self._dtype = tf.as_dtype(dtype)
        self._every_step = every_step
        self._variable: Variable = None

    def make_variables(self) -> None:
        """Makes the variable, once."""
        if self._variable is None:
            self._variable = make_variable("qmodel_change", [], self._dtype, CPU, initial=NAN)
            # Checkpoints of version 0.2.0 lack it.
            state = OptionalState("K-FAC's quadratic model", [self._variable])
            v1.add_to_collection(OPTIONAL_STATE, state)

    @property
    def variable(self) -> Variable:
        """The variable that keeps Δq; made at first use."""
        self.make_variables()
        return self._variable

    @property
    def summaries(self) -> dict[str, Scalar]:
        """Δq, by name."""
        return {"qmodel_change": read(self.variable)}

    @property
    def variables(self) -> list[Variable]:
        """The variable; empty before it is made."""
        return [] if self._variable is None else [self._variable]

    def known(self, compute: Callable[[], Tensor]) -> Callable[[], Tensor]:
        """Returns a function that returns Δq; it computes anew only if Δq is not known anyway."""
        if not self._every_step:
            return compute
        value = compute()
        return lambda: value

    def kept(
        self,
        is_made: Tensor,
        prediction: StepPrediction | None,
        model_change: Callable[[], Tensor],
    ) -> list[Assignment]:
        """Returns the assignment that keeps Δq of a step, or nothing if there is none to keep.

        `is_made`, bool [], is false for a step that changes nothing. The prediction is None if
        steps are never judged. `model_change` is what `known` returned.
        """
        if self._every_step:
            condition, value = is_made, model_change()
        elif prediction is not None:
            condition, value = prediction.due, prediction.model_change
        else:
            return []
        old = read(self.variable)
        with v1.device(CPU):
            new = tf.where(condition, tf.cast(value, old.dtype), old)
        return [Assignment(self.variable, new)]
