"""How a preconditioned gradient and the steps before it make a step: one rule per file.

`make_momentum` chooses the rule by the optimizer's arguments.
"""

from kfac.momentum.adam import AdamMomentum
from kfac.momentum.base import Momentum, Problem, Step
from kfac.momentum.choice import MOMENTUM_TYPES, make_momentum
from kfac.momentum.qmodel import QuadraticModelMomentum
from kfac.momentum.regular import RegularMomentum

__all__ = [
    "MOMENTUM_TYPES",
    "AdamMomentum",
    "Momentum",
    "Problem",
    "QuadraticModelMomentum",
    "RegularMomentum",
    "Step",
    "make_momentum",
]
