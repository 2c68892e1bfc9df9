"""Gradients of the batch: the towers' gradients, summed variable by variable.

The first stage of an update. It also divides the sums by the loss scale, if there is one.
"""

import dataclasses
import typing
from collections.abc import Sequence

import tensorflow as tf

from model_deploy import GradientReduction, reduce_over_copies
from replicate._types import Gradient, Variable
from replicate.gradient_shares import Pairs, loss_scaled_variables
from replicate.loss_scale import LossScaling
from replicate.towers import TowerGradients

v1 = tf.compat.v1


@typing.final
@dataclasses.dataclass(frozen=True)
class GradientSum:
    """Sums the gradients of all towers.

    Attributes:
      pack_bytes: Most bytes of a pack in which gradients cross between devices; None: no packs.
      scaling: Scaling of the loss; None: the loss is not scaled.
      reduction: Way by which gradients are summed over devices.
    """

    pack_bytes: int | None
    scaling: LossScaling | None
    reduction: GradientReduction = "last"

    def sum(self, towers: Sequence[TowerGradients]) -> list[tuple[Gradient, Variable]]:
        """Returns the gradients of the whole batch's loss, without the loss scale.

        Args:
          towers: Gradients of each tower.

        Raises:
          ValueError: Some of a variable's gradients have a loss scale, and others have none.
        """
        gradients: list[Pairs] = [tower.gradients_and_variables for tower in towers]
        with v1.name_scope("gradient_aggregating"):
            devices = [tower.device for tower in towers]
            summed = reduce_over_copies(gradients, devices, self.reduction, self.pack_bytes)
            return summed if self.scaling is None else _unscaled(summed, towers, self.scaling)


def _unscaled(
    summed: Sequence[tuple[Gradient, Variable]],
    towers: Sequence[TowerGradients],
    scaling: LossScaling,
) -> list[tuple[Gradient, Variable]]:
    scaled = loss_scaled_variables(towers)
    return [
        (scaling.unscaled(gradient, variable) if variable.ref() in scaled else gradient, variable)
        for gradient, variable in summed
    ]
