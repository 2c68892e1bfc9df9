"""Averages of factors as workers share them that train apart, and meet in rounds.

Each worker folds its own batches into its factors. In a round the sums S and the weights w of all
workers are averaged, so that S/w is their mean, and all inverses are computed anew. Then all
workers precondition alike, until their next folds.

Second moments in an eigenbasis stay those of each worker, which has another basis until then; they
are moved to the new basis, which all have.

Reference: FedPM (2025), arXiv 2511.09100: means of weights drift where each worker has its own
preconditioner.
"""

import dataclasses
import typing
from collections.abc import Callable

from kfac._types import Operation, Tensor
from kfac.estimator import FisherEstimator
from kfac.fisher_factors.base import FisherFactor
from kfac.linalg.tensor_ops import all_true
from kfac.protocols import RoundAverage
from kfac.state import run_if


@typing.final
@dataclasses.dataclass(frozen=True)
class AveragedFactors:
    """Factors of an optimizer, as `kfac.protocols.AveragedInRounds` asks for them.

    Attributes:
      estimator: The curvature.
      make_inverses: Returns an op that computes all inverses outside of a step.
    """

    estimator: FisherEstimator
    make_inverses: Callable[[], Operation]

    def averages(self) -> list[RoundAverage]:
        """Returns S and w of each factor, symmetric matrices packed into half their size."""
        found: list[RoundAverage] = []
        for factor in self._factors:
            total, weight, _ = factor.cov_variables
            found += [(total, factor.packed, factor.unpacked), (weight, _same, _same)]
        return found

    def refresh(self) -> Operation:
        """Returns an op that computes all inverses, if there are averages."""
        known = [factor.read_weight() > 0 for factor in self._factors]
        return run_if(all_true(known), self.make_inverses)

    @property
    def _factors(self) -> list[FisherFactor]:
        """The factors whose averages do not depend on a basis."""
        return [
            factor
            for factor in self.estimator.factors
            if factor.cov_variables and set(factor.inverse_sources) <= {factor}
        ]


def _same(value: Tensor) -> Tensor:
    return value
