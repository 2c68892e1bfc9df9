"""One update from the gradients of all towers: sum → judge → accumulate → clip → apply.

With several equal workers the sum goes on over the workers, and all of them judge it alike. If they
accumulate, each adds up its own gradients, all judge those of each, and the totals are summed.

Each stage is an object with one job. `GradientStages.build` calls them in order. `TowerOptimizer`
makes the stages from its settings.
"""

import contextlib
import dataclasses
import typing
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import tensorflow as tf

from model_deploy.devices import CPU
from model_deploy.gradients import gradient_values, with_values
from model_deploy.reduction import GradientReduction, reduce_over_copies
from replicate._types import Gradient, Operation, Tensor, Variable
from replicate.gradients.acceptance import StepAcceptance, require_finite_sums
from replicate.gradients.accumulation import GradientAccumulation, GradientsAndVariables
from replicate.gradients.loss_scale import LossScaling
from replicate.graph_ops.initial_values import unconditional_initial_values
from replicate.protocols import Workers
from replicate.tower.build import REDUCED_GRADIENTS, TowerGradients
from replicate.tower.shares import UNWEIGHTED, GradientShare

v1 = tf.compat.v1


@typing.final
@dataclasses.dataclass(frozen=True)
class GradientSum:
    """Sums the gradients of all towers, and undoes what was done to them for the sum.

    The sums are multiplied by the towers' share of the batch, if all towers have the same, and
    divided by the loss scale, if there is one.

    Attributes:
      pack_bytes: Most bytes of a pack in which gradients cross between devices; None: no packs.
      scaling: Scaling of the loss; None: the loss is not scaled.
      reduction: Way by which gradients are summed over devices.
      share: Share of the batch that each tower's gradients have.
    """

    pack_bytes: int | None
    scaling: LossScaling | None
    reduction: GradientReduction = "last"
    share: GradientShare = UNWEIGHTED

    def sum(self, towers: Sequence[TowerGradients]) -> list[tuple[Gradient, Variable]]:
        """Returns the gradients of the whole batch's loss, without the loss scale."""
        gradients = [tower.gradients_and_variables for tower in towers]
        with v1.name_scope("gradient_aggregating"):
            devices = [tower.device for tower in towers]
            summed = reduce_over_copies(gradients, devices, self.reduction, self.pack_bytes)
            summed = self.share.of_sums(summed)
            if self.scaling is None:
                return summed
            return [(self.scaling.unscaled(*pair), pair[1]) for pair in summed]


@typing.final
@dataclasses.dataclass(frozen=True)
class GradientClipping:
    """Scales gradients down to a global norm, > 0; None: they stay as they are."""

    norm: float | None

    def clip(self, gradients_and_variables: GradientsAndVariables) -> GradientsAndVariables:
        """Returns the gradients with at most the global norm, each with its variable."""
        if self.norm is None or not gradients_and_variables:
            return gradients_and_variables
        gradients, variables = zip(*gradients_and_variables, strict=True)
        # The norm is summed where the first gradient is. The gradients stay on their devices.
        with v1.device(gradient_values(gradients[0]).device):
            clipped, _ = tf.clip_by_global_norm(gradients, self.norm)
        return list(zip(clipped, variables, strict=True))


@typing.final
@dataclasses.dataclass(frozen=True)
class GradientApplication:
    """Lets an optimizer apply gradients, with `others` as further arguments."""

    optimizer: v1.train.Optimizer
    global_step: Variable | None
    name: str | None
    others: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    def apply(self, gradients_and_variables: GradientsAndVariables) -> Operation:
        """Returns the operation that applies the gradients."""
        given = {"global_step": self.global_step, "name": self.name, **self.others}
        given = {name: value for name, value in given.items() if value is not None}
        control: Any = contextlib.nullcontext()
        if is_synchronous(self.optimizer):
            # Drops control dependencies: the optimizer's queue runner would run the step again.
            gradients_and_variables = [
                (with_values(gradient, tf.identity(gradient_values(gradient))), variable)
                for gradient, variable in gradients_and_variables
            ]
            control = v1.control_dependencies(None)
        with control, unconditional_initial_values():
            return self.optimizer.apply_gradients(gradients_and_variables, **given)


@typing.final
@dataclasses.dataclass(frozen=True)
class GradientStages:
    """Stages of an update, in the order in which they run.

    The sums go on over workers, if there are any.
    """

    gradient_sum: GradientSum
    acceptance: StepAcceptance
    accumulation: GradientAccumulation
    clipping: GradientClipping
    application: GradientApplication
    workers: Workers | None = None

    def build(self, towers: Sequence[TowerGradients]) -> Operation:
        """Returns the operation that makes a training step."""
        summed = self.gradient_sum.sum(towers)
        computed = [*_other_ends(towers), *values_of(summed)]
        workers, accumulation = self.workers, self.accumulation
        if workers is None:
            computed += self.acceptance.requirements(towers, summed)
        else:
            weighted = (
                workers.weighted_gradients if accumulation.is_local else workers.sum_gradients
            )
            summed = weighted(summed, accumulation.average)
            computed += values_of(summed)
            # No worker may fail while another one still waits for its gradients.
            with v1.control_dependencies(computed):
                computed += self.acceptance.requirements(towers, summed)
        with v1.device(CPU):
            all_computed = v1.group(*computed)
        with v1.control_dependencies([all_computed]):
            with v1.name_scope("gradient_aggregating"):
                accepted = self.acceptance.judge(towers, summed)
            v1.get_collection_ref(REDUCED_GRADIENTS).extend(summed)
            update = accumulation.add(summed, accepted)
            train_op = update.run(self._apply)
        return self.acceptance.record(accepted, train_op)

    def _apply(self, total: GradientsAndVariables) -> Operation:
        """Returns the operation of an update from the gradients of its steps."""
        if self.workers is None or not self.accumulation.is_local:
            return self.application.apply(self.clipping.clip(total))
        gradients, variables = zip(*total, strict=True)
        with v1.name_scope("all_reduce"):
            summed = list(zip(self.workers.sum(gradients), variables, strict=True))
        with v1.control_dependencies([require_finite_sums(summed)]):
            return self.application.apply(self.clipping.clip(summed))


def is_synchronous(optimizer: v1.train.Optimizer) -> bool:
    """Returns True for an optimizer that waits for the gradients of other workers."""
    return isinstance(optimizer, v1.train.SyncReplicasOptimizer)


def values_of(gradients_and_variables: Iterable[tuple[Gradient | None, Variable]]) -> list[Tensor]:
    """Returns the values of the gradients that are not None."""
    return [
        gradient_values(gradient) for gradient, _ in gradients_and_variables if gradient is not None
    ]


def _other_ends(towers: Iterable[TowerGradients]) -> list[Operation]:
    """Returns the ends of towers that wait for more than gradients (control dependencies).

    The sums wait for all other ends already, and a second edge would slow down each step.
    """
    return [
        tower.done
        for tower in towers
        if not {tensor.op for tensor in values_of(tower.gradients_and_variables)}.issuperset(
            tower.done.control_inputs
        )
    ]
