"""Losses by family: negative log-probabilities of a distribution that the model predicts."""

from kfac.loss_functions.base import LossFunction, insert_slice_in_zeros
from kfac.loss_functions.bernoulli import MultiBernoulliNegativeLogProbLoss
from kfac.loss_functions.categorical import (
    CategoricalLogitsNegativeLogProbLoss,
    OnehotCategoricalLogitsNegativeLogProbLoss,
)
from kfac.loss_functions.normal import (
    NormalMeanNegativeLogProbLoss,
    NormalMeanVarianceNegativeLogProbLoss,
)

__all__ = [
    "CategoricalLogitsNegativeLogProbLoss",
    "LossFunction",
    "MultiBernoulliNegativeLogProbLoss",
    "NormalMeanNegativeLogProbLoss",
    "NormalMeanVarianceNegativeLogProbLoss",
    "OnehotCategoricalLogitsNegativeLogProbLoss",
    "insert_slice_in_zeros",
]
