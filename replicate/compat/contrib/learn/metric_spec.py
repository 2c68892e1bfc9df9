"""Metrics of an evaluation by the keys of predictions and labels."""

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from replicate.estimator.added_metrics import add_metrics
from replicate.estimator.estimator import Estimator


class PredictionKey:
    """Keys of predictions."""

    CLASSES = "classes"
    PROBABILITIES = "probabilities"
    LOGITS = "logits"
    LOGISTIC = "logistic"
    SCORES = "scores"
    TOP_K = "top_k"
    GENERIC = "generic_output"


class ProblemType:
    """Kinds of models."""

    UNSPECIFIED = 0
    CLASSIFICATION = 1
    LINEAR_REGRESSION = 2
    LOGISTIC_REGRESSION = 3


class MetricSpec:
    """A metric of some predictions and labels."""

    def __init__(
        self,
        metric_fn: Callable[..., Any],
        prediction_key: str | None = None,
        label_key: str | None = None,
        weight_key: str | None = None,
    ) -> None:
        """Keeps the metric.

        Args:
          metric_fn: Function of predictions, labels and weights, which it calls so or otherwise.
          prediction_key: Key among the predictions, None if there is one tensor.
          label_key: Key among the labels, None if there is one tensor.
          weight_key: Key among the features, None for no weights.
        """
        self.metric_fn = metric_fn
        self.prediction_key = prediction_key
        self.label_key = label_key
        self.weight_key = weight_key

    def create_metric_ops(self, inputs: Mapping[str, Any], labels: Any, predictions: Any) -> Any:
        """Computes the metric of features, labels and predictions: what metric_fn returns.

        Raises:
          ValueError: There are several tensors and no key, or the key is unknown.
        """
        found = _chosen("prediction_key", predictions, self.prediction_key)
        wanted = _chosen("label_key", labels, self.label_key)
        values = {"predictions": found, "labels": wanted}
        if self.weight_key is not None:
            values["weights"] = inputs[self.weight_key]
        names = _names(self.metric_fn)
        if {"predictions", "labels"} <= names:
            return self.metric_fn(**values)
        if "targets" in names:
            values["targets"] = values.pop("labels")
            return self.metric_fn(**values)
        weights = {"weights": values["weights"]} if self.weight_key is not None else {}
        return self.metric_fn(found, wanted, **weights)


def measured(estimator: Estimator, metrics: Mapping[str, Any] | None) -> Estimator:
    """Returns an Estimator that evaluates further metrics, if there are any.

    A metric is a MetricSpec or a function. Its key is a name, or (name, key of the predictions).
    """
    if not metrics:
        return estimator
    pairs = {key if isinstance(key, tuple) else (key, None): each for key, each in metrics.items()}
    specs = {
        name: each if isinstance(each, MetricSpec) else MetricSpec(each, prediction_key=key)
        for (name, key), each in pairs.items()
    }

    def metric_fn(features: Any, labels: Any, predictions: Any) -> dict[str, Any]:
        return {
            name: each.create_metric_ops(features, labels, predictions)
            for name, each in specs.items()
        }

    return add_metrics(estimator, metric_fn)


def _names(function: Callable[..., Any]) -> set[str]:
    return set(inspect.signature(function).parameters)


def _chosen(setting: str, values: Any, key: str | None) -> Any:
    if not isinstance(values, Mapping):
        return values
    if key is None and len(values) == 1:
        return next(iter(values.values()))
    if key not in values:
        raise ValueError(f"MetricSpec got {setting}={key!r}, but there are {sorted(values)}.")
    return values[key]
