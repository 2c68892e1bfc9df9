"""Heads: the tops of models, from logits to loss, training, metrics and exports."""

from replicate.canned.heads.binary import BinaryClassHead
from replicate.canned.heads.contrib import (
    binary_classification_head,
    logistic_regression_head,
    multi_class_head,
    multi_head,
    multi_label_head,
    poisson_regression_head,
    regression_head,
)
from replicate.canned.heads.curvature import CurvatureLoss
from replicate.canned.heads.head import Head
from replicate.canned.heads.multi_class import MultiClassHead
from replicate.canned.heads.multi_head import MultiHead
from replicate.canned.heads.multi_label import MultiLabelHead
from replicate.canned.heads.regression import (
    LogisticRegressionHead,
    PoissonRegressionHead,
    RegressionHead,
)
from replicate.canned.heads.sequential import SequentialHeadWrapper

__all__ = [
    "BinaryClassHead",
    "CurvatureLoss",
    "Head",
    "LogisticRegressionHead",
    "MultiClassHead",
    "MultiHead",
    "MultiLabelHead",
    "PoissonRegressionHead",
    "RegressionHead",
    "SequentialHeadWrapper",
    "binary_classification_head",
    "logistic_regression_head",
    "multi_class_head",
    "multi_head",
    "multi_label_head",
    "poisson_regression_head",
    "regression_head",
]
