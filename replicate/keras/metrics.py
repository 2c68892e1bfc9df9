"""Metrics over all processes: Keras' own metrics add up counts and sums, and these add up.

A metric of another class, which may keep anything, is averaged by its result.
"""

from collections.abc import Mapping, MutableMapping
from typing import Any

import numpy as np

from replicate.keras.sums import Exchange


def results(model: Any, exchange: Exchange) -> dict[str, Any]:
    """Returns the results of a model's metrics over the batches of all processes.

    The metrics keep the state that they have.

    Args:
      model: The compiled Keras model.
      exchange: Sums over processes.
    """
    variables = [each for metric in _own(model.metrics) for each in metric.variables]
    own = [np.asarray(each) for each in variables]
    try:
        for variable, value in zip(variables, exchange.sum(own) if own else [], strict=True):
            variable.assign(value)
        return averages(model.get_metrics_result(), exchange)
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


def update(logs: MutableMapping[str, Any] | None, found: Mapping[str, Any]) -> None:
    """Writes results over those that a log has."""
    if logs is not None:
        logs.update({name: value for name, value in found.items() if name in logs})


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
