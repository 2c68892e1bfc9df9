"""The change of the loss that the quadratic model foretells for a step, kept in a variable.

The step keeps it, the damping rule judges by it, and users look at it. A momentum rule that chooses
its step by the model knows it for every step. Others compute it for steps that are judged.
"""

import typing

import tensorflow as tf

from kfac._types import DType, Scalar, Tensor, Variable
from kfac.damping.rule import NAN
from kfac.protocols import OPTIONAL_STATE
from kfac.state import CPU, Assignment, OptionalState, make_variable, read

v1 = tf.compat.v1


@typing.final
class ModelChange:
    """Δq of the last step for which it is known; NaN before the first."""

    def __init__(self, dtype: DType) -> None:
        self._dtype = tf.as_dtype(dtype)
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

    def kept(self, is_known: Tensor, value: Tensor) -> list[Assignment]:
        """Returns the assignment that keeps Δq of a step, where it is known.

        Args:
          is_known: bool [], false for a step that is not made, or not judged.
          value: Δq, shape [].
        """
        old = read(self.variable)
        with v1.device(CPU):
            new = tf.where(is_known, tf.cast(value, old.dtype), old)
        return [Assignment(self.variable, new)]
