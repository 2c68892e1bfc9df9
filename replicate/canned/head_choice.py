"""Heads of estimators that are called Classifier or Regressor."""

from collections.abc import Sequence
from typing import Any

from replicate.canned.heads import BinaryClassHead, Head, MultiClassHead, RegressionHead
from replicate.canned.heads.measures import SummationMethod


def classifier_head(
    n_classes: int,
    weight_column: Any,
    label_vocabulary: Sequence[str] | None,
    loss_reduction: str,
    auc_summation_method: SummationMethod = "careful_interpolation",
) -> Head:
    """Returns the head of a classifier: BinaryClassHead for two classes, else MultiClassHead.

    Raises:
      ValueError: n_classes is less than 2, or an argument is out of range.
    """
    if n_classes == 2:
        return BinaryClassHead(
            weight_column=weight_column,
            label_vocabulary=label_vocabulary,
            loss_reduction=loss_reduction,
            auc_summation_method=auc_summation_method,
        )
    return MultiClassHead(
        n_classes,
        weight_column=weight_column,
        label_vocabulary=label_vocabulary,
        loss_reduction=loss_reduction,
    )


def regressor_head(label_dimension: int, weight_column: Any, loss_reduction: str) -> Head:
    """Returns the head of a regressor.

    Raises:
      ValueError: An argument is out of range.
    """
    return RegressionHead(
        label_dimension, weight_column=weight_column, loss_reduction=loss_reduction
    )
