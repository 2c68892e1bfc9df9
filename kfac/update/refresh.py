"""Refresh policies: when averages and inverses are updated, relative to the optimizer's steps.

A policy builds the training op: the updates of the curvature that it wants, and the step. It gets
the step and the estimator in its constructor. Here are the interface and the policy of an optimizer
whose user updates the curvature. The others have a file each: `kfac.update.periodic_refresh`,
`asynchronous_refresh` and `cluster_refresh`. Called by the optimizer.
"""

import abc
import typing

from kfac._types import GradsAndVars, Operation, Variable
from kfac.estimator import FisherEstimator
from kfac.update.preconditioner import Preconditioner
from kfac.update.step import KfacStep, StepConditions


class RefreshPolicy(abc.ABC):
    """Decides when the curvature is updated.

    Attributes:
      preconditioner: Multiplies by the inverse curvature, as steps of this policy do.
    """

    def __init__(self, preconditioner: Preconditioner) -> None:
        """Keeps its argument."""
        self.preconditioner = preconditioner

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
        end before the weights change, and whether the run makes a step at all.

        Args:
          pairs: (gradient, variable) for every registered variable.
          global_step: Incremented by one after the step.
          name: Name of the returned op.

        Raises:
          ValueError: As in `KfacStep.apply`.
        """


@typing.final
class RefreshByCaller(RefreshPolicy):
    """Never updates the curvature. The optimizer's user runs the update ops.

    A block that has no inverse yet counts as a damped identity matrix.
    """

    def __init__(self, step: KfacStep, estimator: FisherEstimator) -> None:
        """Keeps its arguments.

        Args:
          step: The step.
          estimator: The curvature.
        """
        self._step = step
        super().__init__(Preconditioner(estimator, from_identity=True))

    def apply(
        self, pairs: GradsAndVars, global_step: Variable | None, name: str | None
    ) -> Operation:
        """Returns an op that makes one step, with the inverses as they are."""
        return self._step.apply(pairs, StepConditions(), self.preconditioner, global_step, name)
