"""Refresh policies: when averages and inverses are updated, relative to the optimizer's steps.

A policy builds the training op: the updates of the curvature that it wants, and the step. It is
made of its settings, a frozen value that an optimizer is given, and of the step and the estimator.
Here are the interfaces and the policy of an optimizer whose user updates the curvature. The others
have a file each: `kfac.update.periodic_refresh`, `asynchronous_refresh` and `cluster_refresh`.
Called by the optimizer.
"""

import abc
import dataclasses
import typing

from kfac._types import GradsAndVars, Operation, Scalar, Variable
from kfac.estimator import FisherEstimator
from kfac.update.step import KfacStep, StepConditions


class RefreshPolicy(abc.ABC):
    """Decides when the curvature is updated."""

    @property
    def variables(self) -> list[Variable]:
        """State of the policy. Empty before it is made."""
        return []

    @abc.abstractmethod
    def apply(
        self, pairs: GradsAndVars, global_step: Variable | None, name: str | None
    ) -> Operation:
        """Returns an op that makes one step, and the updates that belong to it.

        A policy tells the step, by `StepConditions`, which updates end before it is computed, which
        end before the weights change, and if the run makes a step at all.

        Args:
          pairs: (gradient, variable) for every registered variable.
          global_step: Incremented by one after the step.
          name: Name of the returned op.

        Raises:
          ValueError: As in `KfacStep.apply`.
        """


@typing.final
class RefreshByCaller(RefreshPolicy):
    """Never updates the curvature. The optimizer's user runs the update ops."""

    def __init__(self, step: KfacStep) -> None:
        """Keeps its argument.

        Args:
          step: The step.
        """
        self._step = step

    def apply(
        self, pairs: GradsAndVars, global_step: Variable | None, name: str | None
    ) -> Operation:
        """Returns an op that makes one step, with the inverses as they are."""
        return self._step.apply(pairs, StepConditions(), global_step, name)


class RefreshSettings(abc.ABC):
    """Settings of a refresh policy, of which an optimizer makes the policy. A frozen value."""

    @property
    @abc.abstractmethod
    def from_identity(self) -> bool:
        """True if a block that has no inverse yet counts as a damped identity matrix.

        If it is false, products with its inverse are zero.
        """

    def decay_per_update(self, decay: Scalar) -> Scalar:
        """Returns the weight of the past per update of averages.

        Args:
          decay: The weight of the past that the optimizer was given.
        """
        return decay

    @abc.abstractmethod
    def policy(self, step: KfacStep, estimator: FisherEstimator, name: str) -> RefreshPolicy:
        """Returns a new policy, which makes no ops or variables yet.

        Args:
          step: The step.
          estimator: The curvature.
          name: Name of the optimizer.
        """


@typing.final
@dataclasses.dataclass(frozen=True)
class ByCaller(RefreshSettings):
    """Settings of `RefreshByCaller`: there are none."""

    from_identity = True

    def policy(self, step: KfacStep, estimator: FisherEstimator, name: str) -> RefreshByCaller:
        """Returns the policy."""
        del estimator, name
        return RefreshByCaller(step)


BY_CALLER = ByCaller()
"""Settings of an optimizer whose user updates the curvature."""
