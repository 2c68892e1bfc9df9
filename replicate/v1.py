"""The names of `replicate`, with the defaults of TensorFlow 1.

Programs that were written for `tf.compat.v1.estimator` or `tf.estimator` of TensorFlow 1 import
this module in its place. The loss of its classifiers and regressors is the sum over the batch,
where that of `replicate` is the mean. The auc_precision_recall of its classifiers,
`binary_classification_head` and `multi_label_head` is summed by trapezoids, where that of
`replicate` is interpolated. All other names are those of `replicate`.
"""

from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from replicate import public
from replicate.canned.baseline import BaselineClassifier as _BaselineClassifier
from replicate.canned.baseline import BaselineRegressor as _BaselineRegressor
from replicate.canned.combined import DNNLinearCombinedClassifier as _DNNLinearCombinedClassifier
from replicate.canned.combined import DNNLinearCombinedRegressor as _DNNLinearCombinedRegressor
from replicate.canned.dnn import DNNClassifier as _DNNClassifier
from replicate.canned.dnn import DNNRegressor as _DNNRegressor
from replicate.canned.heads import Head
from replicate.canned.heads import binary_classification_head as _binary_classification_head
from replicate.canned.heads import multi_label_head as _multi_label_head
from replicate.canned.linear import LinearClassifier as _LinearClassifier
from replicate.canned.linear import LinearRegressor as _LinearRegressor
from replicate.estimator.estimator import Estimator as _Estimator

SUM = tf.compat.v1.losses.Reduction.SUM
_OF_HEADS: Mapping[str, Any] = {"auc_summation_method": "trapezoidal"}
_OF_CLASSIFIERS: Mapping[str, Any] = {"loss_reduction": SUM, **_OF_HEADS}
_OF_REGRESSORS: Mapping[str, Any] = {"loss_reduction": SUM}

__all__ = public.__all__


class _Classifier(_Estimator):
    """Defaults of classifiers."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **{**_OF_CLASSIFIERS, **kwargs})


class _Regressor(_Estimator):
    """Defaults of regressors."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **{**_OF_REGRESSORS, **kwargs})


class DNNClassifier(_Classifier, _DNNClassifier):
    """`replicate.DNNClassifier`, with the default loss and area of TensorFlow 1."""


class DNNRegressor(_Regressor, _DNNRegressor):
    """`replicate.DNNRegressor`, with the sum as the default loss reduction."""


class LinearClassifier(_Classifier, _LinearClassifier):
    """`replicate.LinearClassifier`, with the default loss and area of TensorFlow 1."""


class LinearRegressor(_Regressor, _LinearRegressor):
    """`replicate.LinearRegressor`, with the sum as the default loss reduction."""


class DNNLinearCombinedClassifier(_Classifier, _DNNLinearCombinedClassifier):
    """`replicate.DNNLinearCombinedClassifier`, with the default loss and area of TensorFlow 1."""


class DNNLinearCombinedRegressor(_Regressor, _DNNLinearCombinedRegressor):
    """`replicate.DNNLinearCombinedRegressor`, with the sum as the default loss reduction."""


class BaselineClassifier(_Classifier, _BaselineClassifier):
    """`replicate.BaselineClassifier`, with the default loss and area of TensorFlow 1."""


class BaselineRegressor(_Regressor, _BaselineRegressor):
    """`replicate.BaselineRegressor`, with the sum as the default loss reduction."""


def binary_classification_head(*args: Any, **kwargs: Any) -> Head:
    """Makes a `replicate.BinaryClassHead`, with the area of TensorFlow 1 as the default."""
    return _binary_classification_head(*args, **{**_OF_HEADS, **kwargs})


def multi_label_head(*args: Any, **kwargs: Any) -> Head:
    """Makes a `replicate.MultiLabelHead`, with the area of TensorFlow 1 as the default."""
    return _multi_label_head(*args, **{**_OF_HEADS, **kwargs})


def __getattr__(name: str) -> Any:
    if name.startswith("_"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(public, name)


def __dir__() -> list[str]:
    return sorted(__all__)
