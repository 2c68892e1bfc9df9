"""Assembly of a step: makes its rules for damping and momentum, and the step, from settings.

Called by the constructor of the K-FAC optimizer.
"""

import dataclasses
from collections.abc import Callable, Sequence
from typing import NamedTuple

from kfac._types import DType, Scalar, Variable
from kfac.estimator import FisherEstimator
from kfac.update.damping import DampingRule
from kfac.update.damping_adaptation import AdaptationSettings, make_damping_rule
from kfac.update.model_change import ModelChange
from kfac.update.momentum import Momentum, make_momentum
from kfac.update.momentum.choice import MomentumSettings
from kfac.update.preconditioner import MultiplyInverse
from kfac.update.step import KfacStep, StepRules
from kfac.update.training_loss import TrainingLoss


@dataclasses.dataclass(frozen=True, kw_only=True)
class StepSettings:
    """Settings of a step.

    Attributes:
      damping: λ, at first.
      adapt_damping: Whether λ adapts.
      adaptation: How it adapts.
      momentum_type: One of `MOMENTUM_TYPES`.
      momentum: Settings of the momentum rule.
      model_damping: λ', see `StepInputs.model_damping`; None means λ.
      dtype: Of the variables of the damping rule.
    """

    damping: Scalar
    adapt_damping: bool
    adaptation: AdaptationSettings
    momentum_type: str
    momentum: MomentumSettings
    model_damping: Scalar | None
    dtype: DType

    @property
    def damping_reads_averages(self) -> bool:
        """True if λ is calibrated, or adapts by products with M."""
        by_products = self.momentum_type == "regular"
        return self.adapt_damping and (self.adaptation.calibrate or by_products)


class StepParts(NamedTuple):
    """A step, and the rules that it follows.

    Attributes:
      damping: The damping rule.
      momentum: The momentum rule.
      change: Keeps Δq; None if it is never known.
      step: The step.
    """

    damping: DampingRule
    momentum: Momentum
    change: ModelChange | None
    step: KfacStep


def assemble_step(
    name: str,
    estimator: FisherEstimator,
    losses: TrainingLoss,
    settings: StepSettings,
    make_velocities: Callable[[Sequence[Variable]], list[Variable]],
    multiply_inverse: MultiplyInverse,
) -> StepParts:
    """Makes a step and its rules.

    Args:
      name: Name scope of the step's ops.
      estimator: The curvature.
      losses: The loss that is minimized.
      settings: Settings of the rules.
      make_velocities: As in `KfacStep`.
      multiply_inverse: As in `KfacStep`.

    Raises:
      ValueError: A setting is out of its range, or settings do not go with each other.
    """
    momentum = make_momentum(settings.momentum_type, settings.momentum)
    change = None
    if settings.adapt_damping or momentum.knows_model_change:
        change = ModelChange(settings.dtype, momentum.knows_model_change)
    damping = make_damping_rule(
        settings.damping,
        settings.adapt_damping,
        losses,
        settings.adaptation,
        settings.dtype,
        change,
        estimator.times.read,
    )
    rules = StepRules(
        momentum=momentum,
        damping=damping,
        change=change,
        losses=losses,
        model_damping=settings.model_damping,
        may_reject=settings.adaptation.rejection_threshold is not None,
        damping_reads_averages=settings.damping_reads_averages,
    )
    step = KfacStep(name, estimator, rules, make_velocities, multiply_inverse)
    return StepParts(damping, momentum, change, step)
