"""Momentum rules: a step from a preconditioned gradient and earlier steps. One rule per file.

`make_momentum` chooses the rule by the optimizer's arguments.
"""

from kfac.update.momentum.adam import AdamMomentum
from kfac.update.momentum.base import Momentum, Step, StepInputs
from kfac.update.momentum.choice import MOMENTUM_TYPES, make_momentum
from kfac.update.momentum.qmodel import QuadraticModelMomentum
from kfac.update.momentum.regular import RegularMomentum

__all__ = [
    "MOMENTUM_TYPES",
    "AdamMomentum",
    "Momentum",
    "QuadraticModelMomentum",
    "RegularMomentum",
    "Step",
    "StepInputs",
    "make_momentum",
]
