"""Momentum rules: a step from a preconditioned gradient and earlier steps.

`make_momentum` chooses the rule by the optimizer's arguments.
"""

from kfac.update.momentum.choice import MOMENTUM_TYPES, make_momentum
from kfac.update.momentum.qmodel import ExactCurvature, QuadraticModelMomentum
from kfac.update.momentum.rules import AdamMomentum, Momentum, RegularMomentum, Step, StepInputs

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
