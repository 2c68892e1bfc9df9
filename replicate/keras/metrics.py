"""Metrics over all processes: Keras' own metrics add up counts and sums, and these add up.

A metric of another class, which may keep anything, is averaged by its result.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from replicate.keras.sums import Exchange


class Results:
    """The method `get_metrics_result` of a model, over the batches of all processes.

    Keras calls it after the last batch of an epoch and of an evaluation. In the function that is
    compiled for a batch, results are those of this process.
    """

    def __init__(self, model: Any, exchange: Exchange) -> None:
        """Keeps the method as it is."""
        self._exchange = exchange
        self._model = model
        self._own = model.get_metrics_result

    def __call__(self) -> dict[str, Any]:
        """Returns the results by name."""
        if not tf.executing_eagerly():
            return dict(self._own())
        return _over_all(self._model, self._own, self._exchange)


def _over_all(
    model: Any, own_results: Callable[[], Mapping[str, Any]], exchange: Exchange
) -> dict[str, Any]:
    """Returns results of all processes. The metrics keep the state that they have."""
    variables = [each for metric in _own(model.metrics) for each in metric.variables]
    own = [np.asarray(each) for each in variables]
    try:
        for variable, value in zip(variables, exchange.sum(own) if own else [], strict=True):
            variable.assign(value)
        return averages(own_results(), exchange)
    finally:
        for variable, value in zip(variables, own, strict=True):
            variable.assign(value)


def averages(logs: Mapping[str, Any], exchange: Exchange) -> dict[str, Any]:
    """Returns the means of numbers over all processes; whatever else there is stays.

    Args:
      logs: Numbers by name, the same names in all processes.
      exchange: Sums over processes.
    """
    numbers = {name: float(value) for name, value in sorted(logs.items()) if _is_number(value)}
    means = exchange.of_each(list(numbers.values())).mean(axis=0)
    return {**logs, **dict(zip(numbers, map(float, means), strict=True))}


def _own(metrics: Any) -> list[Any]:
    """Returns the metrics of Keras' own classes, also those inside of others."""
    found = []
    for metric in metrics:
        inner = getattr(metric, "metrics", None)
        if inner is not None:
            found += _own(inner)
        elif type(metric).__module__.partition(".")[0] == "keras":
            found.append(metric)
    return found


def _is_number(value: Any) -> bool:
    return np.ndim(value) == 0 and np.issubdtype(np.asarray(value).dtype, np.number)
