"""Gradients of the batch: the towers' gradients, summed variable by variable.

The first stage of an update. It also multiplies the sums by the towers' share of the batch, if all
towers have the same, and divides them by the loss scale, if there is one.
"""

import dataclasses
import typing
from collections.abc import Sequence

import tensorflow as tf

from model_deploy import GradientReduction, reduce_over_copies
from replicate._types import Gradient, Variable
from replicate.gradients.loss_scale import LossScaling
from replicate.tower.build import TowerGradients
from replicate.tower.shares import UNWEIGHTED, GradientShare

v1 = tf.compat.v1


@typing.final
@dataclasses.dataclass(frozen=True)
class GradientSum:
    """Sums the gradients of all towers.

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
        """Returns the gradients of the whole batch's loss, without the loss scale.

        Args:
          towers: Gradients of each tower.
        """
        gradients = [tower.gradients_and_variables for tower in towers]
        with v1.name_scope("gradient_aggregating"):
            devices = [tower.device for tower in towers]
            summed = reduce_over_copies(gradients, devices, self.reduction, self.pack_bytes)
            summed = self.share.of_sums(summed)
            if self.scaling is None:
                return summed
            return [(self.scaling.unscaled(*pair), pair[1]) for pair in summed]
