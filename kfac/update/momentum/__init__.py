"""Momentum rules: a step from a preconditioned gradient and earlier steps.

`make_momentum` chooses the rule by the optimizer's arguments.
"""

from kfac.update.momentum.base import Momentum, Step, StepInputs
from kfac.update.momentum.choice import MOMENTUM_TYPES, make_momentum
from kfac.update.momentum.given_rate import AdamMomentum, RegularMomentum
from kfac.update.momentum.qmodel import ExactCurvature, QuadraticModelMomentum

__all__ = [
    "MOMENTUM_TYPES",
    "AdamMomentum",
    "ExactCurvature",
    "Momentum",
    "QuadraticModelMomentum",
    "RegularMomentum",
    "Step",
    "StepInputs",
    "make_momentum",
]
