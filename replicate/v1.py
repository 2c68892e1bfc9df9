"""The names of `replicate`, with the defaults of TensorFlow 1.

Programs that were written for `tf.compat.v1.estimator` or `tf.estimator` of TensorFlow 1 import
this module in its place. The loss of its classifiers and regressors is the sum over the batch,
where that of `replicate` is the mean. All other names are those of `replicate`.
"""

from typing import Any

import tensorflow as tf

from replicate import public
from replicate.canned.baseline import BaselineClassifier as _BaselineClassifier
from replicate.canned.baseline import BaselineRegressor as _BaselineRegressor
from replicate.canned.combined import DNNLinearCombinedClassifier as _DNNLinearCombinedClassifier
from replicate.canned.combined import DNNLinearCombinedRegressor as _DNNLinearCombinedRegressor
from replicate.canned.dnn import DNNClassifier as _DNNClassifier
from replicate.canned.dnn import DNNRegressor as _DNNRegressor
from replicate.canned.linear import LinearClassifier as _LinearClassifier
from replicate.canned.linear import LinearRegressor as _LinearRegressor

SUM = tf.compat.v1.losses.Reduction.SUM

__all__ = public.__all__


class DNNClassifier(_DNNClassifier):
    """`replicate.DNNClassifier`, with the sum as the default loss reduction."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Passes all arguments on."""
        super().__init__(*args, **{"loss_reduction": SUM, **kwargs})


class DNNRegressor(_DNNRegressor):
    """`replicate.DNNRegressor`, with the sum as the default loss reduction."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Passes all arguments on."""
        super().__init__(*args, **{"loss_reduction": SUM, **kwargs})


class LinearClassifier(_LinearClassifier):
    """`replicate.LinearClassifier`, with the sum as the default loss reduction."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Passes all arguments on."""
        super().__init__(*args, **{"loss_reduction": SUM, **kwargs})


class LinearRegressor(_LinearRegressor):
    """`replicate.LinearRegressor`, with the sum as the default loss reduction."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Passes all arguments on."""
        super().__init__(*args, **{"loss_reduction": SUM, **kwargs})


class DNNLinearCombinedClassifier(_DNNLinearCombinedClassifier):
    """`replicate.DNNLinearCombinedClassifier`, with the sum as the default loss reduction."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Passes all arguments on."""
        super().__init__(*args, **{"loss_reduction": SUM, **kwargs})


class DNNLinearCombinedRegressor(_DNNLinearCombinedRegressor):
    """`replicate.DNNLinearCombinedRegressor`, with the sum as the default loss reduction."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Passes all arguments on."""
        super().__init__(*args, **{"loss_reduction": SUM, **kwargs})


class BaselineClassifier(_BaselineClassifier):
    """`replicate.BaselineClassifier`, with the sum as the default loss reduction."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Passes all arguments on."""
        super().__init__(*args, **{"loss_reduction": SUM, **kwargs})


class BaselineRegressor(_BaselineRegressor):
    """`replicate.BaselineRegressor`, with the sum as the default loss reduction."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Passes all arguments on."""
        super().__init__(*args, **{"loss_reduction": SUM, **kwargs})


def __getattr__(name: str) -> Any:
    if name.startswith("_"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(public, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
