"""The damping λ, and what the optimizer asks of any rule for it.

A rule says what λ is now, and may judge steps. Here is also the plain one, by which λ is what it is
given as; the other is in `kfac.damping.adaptation`. Called by the optimizer.
"""

import abc
import typing
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, TypeAlias

import tensorflow as tf

from kfac._types import DType, Operation, Scalar, Tensor, Variable
from kfac.linalg import tensor_ops
from kfac.schedules import current
from kfac.state import Assignment, group

v1 = tf.compat.v1

NAN = float("nan")

PhaseSeconds: TypeAlias = Callable[[], Mapping[str, Tensor]]
"""A function that returns how long each phase of a step took when it last ran, in seconds."""


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
    def adapts(self) -> bool:
        """True if λ adapts, and so steps are judged."""
        return False

    @property
    def calibrates(self) -> bool:
        """True if λ is made relative to the mean curvature, and so depends on the averages."""
        return False

    @property
    def may_reject(self) -> bool:
        """True if a step may be taken back."""
        return False

    @property
    def variables(self) -> list[Variable]:
        """The rule's state."""
        return []

    @property
    def summaries(self) -> dict[str, Scalar]:
        """Values to show, by name."""
        return {"damping": self.read()}

    @abc.abstractmethod
    def make_variables(self) -> None:
        """Makes `variables`, once."""

    def read(self) -> Scalar:
        """Returns λ now, that is, after the active control dependencies."""
        return current(self.damping)

    def read_for_inverses(self) -> Scalar:
        """Returns λ as inverses use it, after the active control dependencies."""
        return self.read()

    def before_step(
        self, counter: Tensor, mean_curvature: Callable[[], Tensor], seconds: PhaseSeconds
    ) -> Operation:
        """Returns an op that completes what the step before left open.

        `counter`, int64 [], counts the steps made so far; `mean_curvature` returns the mean
        eigenvalue of M − λI, shape []. The seconds are for the log.
        """
        del counter, mean_curvature, seconds
        return group()

    def check_variables(self, variables: Sequence[Variable]) -> None:
        """Checks that the model's variables are of a kind that the rule can work with.

        Raises:
          ValueError: They are not.
        """
        del variables

    def predict(
        self, counter: Tensor, accepted: Tensor, model_change: Callable[[], Tensor], dtype: DType
    ) -> StepPrediction | None:
        """Returns what must be known before the step is made; None if steps are not judged.

        `counter`, int64 [], counts the steps made so far. `accepted`, bool [], is true if the step
        is finite, and so is made. `model_change` returns Δq, shape []. `dtype` is that of the
        computation.
        """
        del counter, accepted, model_change, dtype
        return None

    def verdict(self, prediction: StepPrediction | None, seconds: PhaseSeconds) -> Verdict:
        """Judges a step by its prediction, after the active control dependencies."""
        del prediction, seconds
        return Verdict([], None)


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

    def make_variables(self) -> None:
        """Does nothing: there are none."""


def preconditioner_damping(rule: DampingRule, multiple: Scalar) -> Scalar:
    """Returns the damping of M now, a multiple of λ: a number if both are, else float64 []."""
    factor, damping = tensor_ops.known_or_scalars([multiple, rule.read_for_inverses()], tf.float64)
    return factor * damping
