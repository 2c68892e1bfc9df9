"""Heads by the functions of tf.contrib.estimator.

They make the same heads as the classes. `regression_head` and `poisson_regression_head` take
weight_column before label_dimension.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from replicate._types import Tensor
from replicate.canned.heads.binary import BinaryClassHead
from replicate.canned.heads.head import Head
from replicate.canned.heads.measures import SummationMethod
from replicate.canned.heads.multi_class import MultiClassHead
from replicate.canned.heads.multi_head import MultiHead
from replicate.canned.heads.multi_label import MultiLabelHead
from replicate.canned.heads.reductions import SUM_OVER_BATCH_SIZE
from replicate.canned.heads.regression import (
    LogisticRegressionHead,
    PoissonRegressionHead,
    RegressionHead,
)


def binary_classification_head(
    weight_column: Any = None,
    thresholds: Iterable[float] | None = None,
    label_vocabulary: Sequence[str] | None = None,
    loss_reduction: str = SUM_OVER_BATCH_SIZE,
    loss_fn: Callable[..., Tensor] | None = None,
    name: str | None = None,
    *,
    auc_summation_method: SummationMethod = "careful_interpolation",
) -> Head:
    """Makes a `BinaryClassHead`, with its arguments and errors."""
    return BinaryClassHead(
        weight_column,
        thresholds,
        label_vocabulary,
        loss_reduction,
        loss_fn,
        name,
        auc_summation_method=auc_summation_method,
    )


def multi_class_head(
    n_classes: int,
    weight_column: Any = None,
    label_vocabulary: Sequence[str] | None = None,
    loss_reduction: str = SUM_OVER_BATCH_SIZE,
    loss_fn: Callable[..., Tensor] | None = None,
    name: str | None = None,
) -> Head:
    """Makes a `MultiClassHead`, with its arguments and errors."""
    return MultiClassHead(n_classes, weight_column, label_vocabulary, loss_reduction, loss_fn, name)


def multi_label_head(
    n_classes: int,
    weight_column: Any = None,
    thresholds: Iterable[float] | None = None,
    label_vocabulary: Sequence[str] | None = None,
    loss_reduction: str = SUM_OVER_BATCH_SIZE,
    loss_fn: Callable[..., Tensor] | None = None,
    classes_for_class_based_metrics: Sequence[int | str] | None = None,
    name: str | None = None,
    *,
    auc_summation_method: SummationMethod = "careful_interpolation",
) -> Head:
    """Makes a `MultiLabelHead`, with its arguments and errors."""
    return MultiLabelHead(
        n_classes,
        weight_column,
        thresholds,
        label_vocabulary,
        loss_reduction,
        loss_fn,
        classes_for_class_based_metrics,
        name,
        auc_summation_method=auc_summation_method,
    )


def regression_head(
    weight_column: Any = None,
    label_dimension: int = 1,
    loss_reduction: str = SUM_OVER_BATCH_SIZE,
    loss_fn: Callable[..., Tensor] | None = None,
    inverse_link_fn: Callable[[Tensor], Tensor] | None = None,
    name: str | None = None,
) -> Head:
    """Makes a `RegressionHead`, with its arguments in another order, and its errors."""
    return RegressionHead(
        label_dimension, weight_column, loss_reduction, loss_fn, inverse_link_fn, name
    )


def poisson_regression_head(
    weight_column: Any = None,
    label_dimension: int = 1,
    loss_reduction: str = SUM_OVER_BATCH_SIZE,
    compute_full_loss: bool = True,
    name: str | None = None,
) -> Head:
    """Makes a `PoissonRegressionHead`, with its arguments in another order, and its errors."""
    return PoissonRegressionHead(
        label_dimension, weight_column, loss_reduction, compute_full_loss, name
    )


def logistic_regression_head(
    weight_column: Any = None,
    loss_reduction: str = SUM_OVER_BATCH_SIZE,
    name: str | None = None,
) -> Head:
    """Makes a `LogisticRegressionHead`, with its arguments and errors."""
    return LogisticRegressionHead(weight_column, loss_reduction, name)


def multi_head(heads: Sequence[Head], head_weights: Sequence[float] | None = None) -> Head:
    """Makes a `MultiHead`, with its arguments and errors."""
    return MultiHead(heads, head_weights)
