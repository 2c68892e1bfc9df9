"""Statistics of weighted examples that are computed from sums over them.

A `Measure` is a pair of functions without state: sums over a batch, and the statistic of the sums
over all batches. Sums add up exactly over batches and towers. `metric_objects.Metric` keeps them.

The area under the precision-recall curve is interpolated as in Davis & Goadrich, "The Relationship
Between Precision-Recall and ROC Curves" (2006): between two thresholds, true positives grow
linearly with the predicted positives. TensorFlow 1 summed trapezoids instead, which gives a larger
area where there are few examples.
"""

import functools
from collections.abc import Callable
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
import tensorflow as tf

from replicate._types import Tensor
from replicate.tower.build import current_build

NUM_THRESHOLDS = 200
"""Thresholds of the probability at which the areas under curves are computed."""

Curve: TypeAlias = Literal["ROC", "PR"]
SummationMethod: TypeAlias = Literal["careful_interpolation", "trapezoidal"]
_SUMMATION_METHODS = ("careful_interpolation", "trapezoidal")
_EPSILON = 1e-6
_divide = tf.math.divide_no_nan


class Measure(NamedTuple):
    """Statistic of weighted examples.

    Attributes:
      sums: Function from a batch's values, and the weights as the last argument, to sums over the
        batch, one for each of `names`. The weights broadcast to the values.
      result: Function from the sums over all batches to the statistic, a scalar. It is 0 where the
        statistic is undefined.
      names: Names of the sums.
      length: Length of each sum; None for scalars.
    """

    sums: Callable[..., tuple[Tensor, ...]]
    result: Callable[..., Tensor]
    names: tuple[str, ...] = ("total", "count")
    length: int | None = None


def mean() -> Measure:
    """Makes the mean of values v with weights w: Σ w·v / Σ w."""
    return Measure(_weighted_sums, _divide)


def accuracy() -> Measure:
    """Makes the weighted fraction of the examples whose label equals the prediction.

    Its values are labels and predictions, of one shape.
    """

    def sums(labels: Tensor, predictions: Tensor, weights: Tensor) -> tuple[Tensor, ...]:
        equal = tf.equal(labels, tf.cast(predictions, labels.dtype))
        return _weighted_sums(equal, weights)

    return Measure(sums, _divide)


def accuracy_at(threshold: float) -> Measure:
    """Makes the accuracy of predicting class 1 where the probability exceeds a threshold."""
    known = accuracy()

    def sums(labels: Tensor, probabilities: Tensor, weights: Tensor) -> tuple[Tensor, ...]:
        return known.sums(labels, probabilities > threshold, weights)

    return Measure(sums, _divide)


def majority() -> Measure:
    """Makes the accuracy of the better constant prediction: max(m, 1 − m) for the label mean m."""

    def result(total: Tensor, count: Tensor) -> Tensor:
        return _divide(tf.maximum(total, count - total), count)

    return Measure(_weighted_sums, result)


def precision(threshold: float = 0.5) -> Measure:
    """Makes the fraction of the predicted positives that are positive.

    Its values are labels, positive if not 0, and predictions, positive if above the threshold.
    """

    def sums(labels: Tensor, predictions: Tensor, weights: Tensor) -> tuple[Tensor, ...]:
        are_positive = _above(predictions, threshold)
        return _weighted_sums(_positive(labels) * are_positive, are_positive * weights)

    return Measure(sums, _divide, ("true_positives", "predicted_positives"))


def recall(threshold: float = 0.5) -> Measure:
    """Makes the fraction of the positives that are predicted, with values as `precision` takes."""

    def sums(labels: Tensor, predictions: Tensor, weights: Tensor) -> tuple[Tensor, ...]:
        are_positive = _positive(labels)
        return _weighted_sums(_above(predictions, threshold), are_positive * weights)

    return Measure(sums, _divide, ("true_positives", "positives"))


def check_summation_method(method: Any, where: str) -> None:
    """Checks the method by which a head computes areas under curves.

    Raises:
      ValueError: It is not a `SummationMethod`.
    """
    if method not in _SUMMATION_METHODS:
        raise ValueError(
            f"Cannot make {where}: auc_summation_method must be one of {list(_SUMMATION_METHODS)}, "
            f"got {method!r}. Leave it out for the first; TensorFlow 1 used the second."
        )


def area(curve: Curve, summation_method: SummationMethod = "careful_interpolation") -> Measure:
    """Makes the area under a curve, from the counts at 200 thresholds between 0 and 1.

    Its values are labels, positive if not 0, and probabilities, of one shape. One threshold lies
    below 0 and one above 1, so that the curve reaches both ends.

    Args:
      curve: "ROC": true positive rate over false positive rate, by the trapezoidal rule. "PR":
        precision over recall.
      summation_method: Of the curve "PR": interpolation as the module describes, or trapezoids, the
        default of `tf.compat.v1.metrics.auc`.
    """
    if curve == "ROC":
        result = _area_under_roc
    elif summation_method == "trapezoidal":
        result = _precision_recall_trapezoids
    else:
        result = _area_under_precision_recall
    names = ("true_positives", "false_positives")
    return Measure(_counts_at_thresholds, result, names, NUM_THRESHOLDS)


def batch_mean() -> Measure:
    """Makes the mean over batches of a scalar of the batch, such as its loss.

    Weights are ignored. In a tower, the scalar is the shard's: its share of the batch's value is
    added, and one part of a batch is counted.
    """

    def sums(value: Tensor, weights: Tensor) -> tuple[Tensor, ...]:
        del weights
        value = tf.cast(value, tf.float32)
        build = current_build()
        if build is None or build.tower is None:
            return value, tf.constant(1.0)
        return build.share(value, "share_of_batch"), tf.constant(1.0 / build.tower.count)

    return Measure(sums, _divide)


def _weighted_sums(values: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
    """Returns Σ w·v and Σ w, with one weight for each value after broadcasting."""
    values = tf.cast(values, tf.float32)
    weights = tf.broadcast_to(weights, tf.shape(values))
    return tf.reduce_sum(values * weights), tf.reduce_sum(weights)


def _above(predictions: Tensor, threshold: float) -> Tensor:
    """Returns 1.0 where a prediction is above the threshold, else 0.0."""
    return tf.cast(tf.cast(predictions, tf.float32) > threshold, tf.float32)


def _positive(labels: Tensor) -> Tensor:
    """Returns 1.0 where a label is not 0, else 0.0."""
    return tf.cast(tf.not_equal(tf.cast(labels, tf.float32), 0), tf.float32)


@functools.lru_cache(maxsize=1)
def _thresholds() -> np.ndarray:
    """Returns the thresholds of a curve, ascending, float32 [NUM_THRESHOLDS]."""
    inner = np.arange(1, NUM_THRESHOLDS - 1) / (NUM_THRESHOLDS - 1)
    return np.concatenate([[-1e-7], inner, [1 + 1e-7]]).astype(np.float32)


def _counts_at_thresholds(
    labels: Tensor, probabilities: Tensor, weights: Tensor
) -> tuple[Tensor, Tensor]:
    """Returns the weights of true and false positives at each threshold.

    The first threshold is below all probabilities, so the first entries are the weights of all
    positives and of all negatives.
    """
    weights = tf.reshape(tf.broadcast_to(weights, tf.shape(probabilities)), [-1])
    are_positive = tf.reshape(_positive(labels), [-1]) * weights
    are_negative = weights - are_positive
    above = tf.reshape(probabilities, [1, -1]) > _thresholds()[:, np.newaxis]
    zero = tf.constant(0.0)
    return (
        tf.reduce_sum(tf.where(above, are_positive, zero), axis=1),
        tf.reduce_sum(tf.where(above, are_negative, zero), axis=1),
    )


def _area_under_roc(true_positives: Tensor, false_positives: Tensor) -> Tensor:
    height = _divide(true_positives, true_positives[0])
    width = _divide(false_positives, false_positives[0])
    return tf.reduce_sum((width[:-1] - width[1:]) * (height[:-1] + height[1:]) / 2)


def _area_under_precision_recall(true_positives: Tensor, false_positives: Tensor) -> Tensor:
    """Integrates precision over recall.

    Between two thresholds, true positives t depend on predicted positives p as t = c + s·p. The
    integral of the precision t/p over t is s·(Δt + c·ln(p₀/p₁)), with p₁ at the higher threshold.
    """
    predicted = true_positives + false_positives
    gained = true_positives[:-1] - true_positives[1:]
    slope = _divide(gained, tf.maximum(predicted[:-1] - predicted[1:], 0))
    intercept = true_positives[1:] - slope * predicted[1:]
    have_both = tf.logical_and(predicted[:-1] > 0, predicted[1:] > 0)
    ratio = tf.where(have_both, _divide(predicted[:-1], predicted[1:]), 1.0)
    parts = slope * (gained + intercept * tf.math.log(ratio))
    return _divide(tf.reduce_sum(parts), true_positives[0])


def _precision_recall_trapezoids(true_positives: Tensor, false_positives: Tensor) -> Tensor:
    """Sums trapezoids between the thresholds, as TensorFlow 1 did.

    Above all probabilities, where nothing is predicted positive, the precision counts as 1.
    """
    predicted = true_positives + false_positives
    precisions = (true_positives + _EPSILON) / (predicted + _EPSILON)
    recalls = (true_positives + _EPSILON) / (true_positives[0] + _EPSILON)
    heights = (precisions[:-1] + precisions[1:]) / 2
    return tf.reduce_sum((recalls[:-1] - recalls[1:]) * heights)
