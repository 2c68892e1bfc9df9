"""Metric objects among the metrics of a model.

Converts a metric object of Keras 2 (tf_keras, or `tf.keras` up to TensorFlow 2.15) or of a head to
a pair of value and update, as `tf.compat.v1.metrics` makes them, and adds its variables to those of
other metrics. Used by `EstimatorSpec`. Keras is not imported: any object with `result()` and
`updates` is a metric.
"""

from typing import Any

import tensorflow as tf

from replicate._types import Variable

v1 = tf.compat.v1

_COLLECTIONS = (v1.GraphKeys.LOCAL_VARIABLES, v1.GraphKeys.METRIC_VARIABLES)


def as_metric_pair(name: str, metric: Any) -> Any:
    """Converts a metric object to a pair (value, update). Returns other values unchanged.

    The object's `variables`, if it has any, are added to LOCAL_VARIABLES, so that they are
    initialised, and to METRIC_VARIABLES. The update runs all calls of the metric's `update_state`.

    Args:
      name: Name of the metric in `eval_metric_ops`, for errors.
      metric: An object with `result()` and `updates`; a pair; or something else.

    Raises:
      TypeError: The object is a metric of Keras 3.
      ValueError: The metric has no update, or belongs to another graph.
    """
    if not hasattr(metric, "result"):
        return metric
    if not hasattr(metric, "updates"):
        if hasattr(metric, "update_state"):
            raise _keras_3_error(name, metric)
        return metric
    updates = list(metric.updates)
    if not updates:
        raise ValueError(
            f"Cannot evaluate metric {name!r}: {_described(metric)} has no update. Call its "
            "update_state(labels, predictions) in model_fn."
        )
    _check_graph(name, metric)
    for key in _COLLECTIONS:
        listed = {variable.ref() for variable in v1.get_collection(key)}
        v1.get_collection_ref(key).extend(v for v in _variables(metric) if v.ref() not in listed)
    return metric.result(), updates[0] if len(updates) == 1 else v1.group(*updates)


def _check_graph(name: str, metric: Any) -> None:
    graph = v1.get_default_graph()
    foreign = [v.name for v in _variables(metric) if getattr(v, "graph", None) is not graph]
    if foreign:
        raise ValueError(
            f"Cannot evaluate metric {name!r}: {_described(metric)} has variables outside of the "
            f"model's graph: {', '.join(foreign)}. Make a new metric in each call of model_fn."
        )


def _variables(metric: Any) -> list[Variable]:
    return list(getattr(metric, "variables", ()))


def _keras_3_error(name: str, metric: Any) -> TypeError:
    return TypeError(
        f"Cannot evaluate metric {name!r}: {_described(metric)} is a metric of Keras 3, which "
        "loses its updates in a graph. Write a metric of tf.compat.v1.metrics instead, such as "
        f"{{{name!r}: tf.compat.v1.metrics.accuracy(labels, predictions)}}, or the same class of "
        "tf_keras.metrics (pip install tf-keras)."
    )


def _described(metric: Any) -> str:
    kind = type(metric)
    return f"{kind.__module__}.{kind.__qualname__}"
