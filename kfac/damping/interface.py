"""The damping λ, as it is given or as another rule has it, and what rules judge steps by.

A rule says what λ is now. Here is the plain one, by which λ is what it is given as; the other,
which also judges steps, is in `kfac.damping.adaptation`. Called by the optimizer.
"""

import abc
import typing
from collections.abc import Callable, Mapping
from typing import NamedTuple, TypeAlias

import tensorflow as tf

from kfac._types import DType, Operation, Scalar, Tensor, Variable
from kfac.computed_settings import current
from kfac.protocols import OPTIONAL_STATE
from kfac.state import CPU, Assignment, OptionalState, make_variable, read

v1 = tf.compat.v1

NAN = float("nan")

PhaseSeconds: TypeAlias = Callable[[], Mapping[str, Tensor]]
"""A function that returns how long each phase of a step took when it last ran, in seconds."""


class BeforeStep(NamedTuple):
    """The work of a run before its step.

    Attributes:
      done: An op that completes what the step before left open. Every step waits for it.
      inverse_damping: λ as inverses use it in this run, shape []; None means as it is read.
    """

    done: Operation
    inverse_damping: Tensor | None = None


class StepPrediction(NamedTuple):
    """The change of the loss that the quadratic model predicts for a step, to be judged by.

    `due`, bool [], is true if the step is to be judged; `loss` is L(θ), shape []. Δq, shape [], is
    NaN if the step is not to be judged. `follows_rejected`, bool [], is true if the last step that
    was judged was taken back.
    """

    due: Tensor
    loss: Tensor
    model_change: Tensor
    follows_rejected: Tensor


class Verdict(NamedTuple):
    """The damping rule's judgement of a step after it was made: its variables' new values.

    `rejected`, bool [], is true if the step is to be taken back; None if that never happens.
    """

    state: list[Assignment]
    rejected: Tensor | None


@typing.final
class ModelChange:
    """Δq of the last step for which it is known, kept in a variable; NaN before the first.

    The step keeps it, the damping rule judges by it, and users look at it. A momentum rule that
    chooses its step by the model knows it for every step. Others compute it for steps that are
    judged.
    """

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
        """Returns the assignment that keeps Δq, shape [], of a step, where it is known.

        `is_known`, bool [], is false for a step that is not made, or not judged.
        """
        old = read(self.variable)
        with v1.device(CPU):
            new = tf.where(is_known, tf.cast(value, old.dtype), old)
        return [Assignment(self.variable, new)]


class DampingRule(abc.ABC):
    """A rule that gives λ."""

    @property
    @abc.abstractmethod
    def damping(self) -> Scalar:
        """λ as it was given, or the variable that keeps it."""

    @property
    @abc.abstractmethod
    def rho(self) -> Scalar:
        """ρ of the last step that was judged; NaN if there is none."""

    @property
    def variables(self) -> list[Variable]:
        """The rule's state."""
        return []

    @property
    def summaries(self) -> dict[str, Scalar]:
        """Values to show, by name."""
        return {"damping": self.read()}

    def read(self) -> Scalar:
        """Returns λ now, that is, after the active control dependencies."""
        return current(self.damping)


@typing.final
class GivenDamping(DampingRule):
    """λ as it is given."""

    rho = NAN  # Steps are not judged.

    def __init__(self, damping: Scalar) -> None:
        self._damping = damping

    @property
    def damping(self) -> Scalar:
        """λ as it was given."""
        return current(self._damping)
