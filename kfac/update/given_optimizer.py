"""A step that another optimizer makes of preconditioned gradients.

It gets M⁻¹g of each variable, perhaps grafted, where K-FAC would subtract it. Its own state changes
only in steps that are finite and are to be made. Called by the step.
"""

import dataclasses
import typing
from collections.abc import Callable, Sequence

import tensorflow as tf

from kfac._types import GradsAndVars, Operation, Variable
from kfac.state import group, run_if
from kfac.update.apply import Update
from kfac.update.grafting import Graft, grafted
from kfac.update.momentum import StepInputs

v1 = tf.compat.v1


@typing.final
@dataclasses.dataclass(frozen=True, eq=False)
class GivenOptimizer:
    """The optimizer that makes the step.

    Attributes:
      apply_gradients: Returns an op that makes its step of (gradient, variable) pairs. It is called
        once, perhaps inside a branch.
      graft: Gives each layer's product the length of another optimizer's step; None leaves it.
    """

    apply_gradients: Callable[[GradsAndVars], Operation]
    graft: Graft | None = None

    def make(
        self,
        update: Update,
        inputs: StepInputs,
        layers: Sequence[Sequence[Variable]],
        follow: Callable[[Sequence[Operation]], Sequence[Operation]],
        name: str | None,
    ) -> Operation:
        """Returns an op of this name that makes the step, then runs other ops.

        The products are the changes of an update. `layers` are the variables of each layer that has
        a block of curvature. `follow` is given the op that makes the step, and returns the ops that
        follow it.
        """
        variables = inputs.variables
        if self.graft:
            self.graft.make_variables(variables)

        def step() -> Operation:
            products, done = update.changes, []
            if self.graft:
                steps, kept = self.graft.steps(inputs.gradient_parts, variables)
                products, done = grafted(products, steps, variables, layers), [kept]
            return group(self.apply_gradients(list(zip(products, variables, strict=True))), *done)

        return group(*follow([run_if(update.is_made, step)]), name=name)
