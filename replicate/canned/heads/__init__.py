"""Heads: the tops of models, from logits to loss, training, metrics and exports."""

from replicate.canned.heads.binary import BinaryClassHead
from replicate.canned.heads.curvature import CurvatureLoss
from replicate.canned.heads.head import Head
from replicate.canned.heads.multi_class import MultiClassHead
from replicate.canned.heads.regression import (
    LogisticRegressionHead,
    PoissonRegressionHead,
    RegressionHead,
)

__all__ = [
    "BinaryClassHead",
    "CurvatureLoss",
    "Head",
    "LogisticRegressionHead",
    "MultiClassHead",
    "PoissonRegressionHead",
    "RegressionHead",
]
