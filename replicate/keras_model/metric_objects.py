"""Metric objects of Keras in a graph, as entries of `eval_metric_ops`.

Metrics of Keras 2 work in graphs as they are. Those of Keras 3 lose their assignments there, so
they are called as functions of their variables, and the new values are assigned here.
"""

import dataclasses
import types
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from replicate._types import Operation, Tensor, Variable
from replicate.keras_model.recipe import ModelRecipe

v1 = tf.compat.v1

_COLLECTIONS = [v1.GraphKeys.LOCAL_VARIABLES, v1.GraphKeys.METRIC_VARIABLES]
_SHORT = types.MappingProxyType({"acc": "accuracy", "ce": "crossentropy"})
_BY_LABELS: Mapping[str, tuple[str, str, str]] = types.MappingProxyType(
    {
        "accuracy": ("BinaryAccuracy", "SparseCategoricalAccuracy", "CategoricalAccuracy"),
        "crossentropy": (
            "BinaryCrossentropy",
            "SparseCategoricalCrossentropy",
            "CategoricalCrossentropy",
        ),
    }
)
"""Metric → its classes for one output, for labels that are classes, for one-hot labels."""


class Measured(NamedTuple):
    """Labels and output, [batch, ...], that a metric compares. Weights are None if all are 1."""

    labels: Tensor
    output: Tensor
    weights: Any


@dataclasses.dataclass(frozen=True)
class MetricMaker:
    """Makes metrics of the model of a recipe in the default graph."""

    recipe: ModelRecipe

    def make(self, kind: Any, measured: Measured) -> tuple[str, Any]:
        """Makes a metric and its update.

        Args:
          kind: Name of a metric, a function of labels and output, a configuration of either, or a
            metric of another graph, which is made anew.
          measured: Tensors that it compares.

        Returns:
          Its name, and its entry for `eval_metric_ops`.

        Raises:
          ValueError: Keras has no such metric.
        """
        if self.recipe.is_keras_3:
            metric, values = self._in_scratch_graph(kind, measured)
            return metric.name, _as_functions(metric, values, measured)
        metric = self._instance(kind, measured)
        metric.update_state(measured.labels, measured.output, sample_weight=measured.weights)
        return metric.name, metric

    def _in_scratch_graph(self, kind: Any, measured: Measured) -> tuple[Any, list[np.ndarray]]:
        """Makes a metric in a graph of its own, and returns it with its variables' first values.

        Some metrics make their variables in the first update, so there is one, of zeros.
        """
        with tf.Graph().as_default(), v1.Session() as session:
            metric = self._instance(kind, measured)
            metric.update_state(_zeros_like(measured.labels), _zeros_like(measured.output))
            variables = [each.value for each in metric.variables]
            session.run([each.initializer for each in variables])
            return metric, session.run(variables)

    def _instance(self, kind: Any, measured: Measured) -> Any:
        metrics = self.recipe.keras.metrics
        if isinstance(kind, str) and _SHORT.get(kind.lower(), kind.lower()) in _BY_LABELS:
            classes = _BY_LABELS[_SHORT.get(kind.lower(), kind.lower())]
            return getattr(metrics, classes[_kind_of_labels(measured)])(name=kind)
        if isinstance(kind, metrics.Metric):
            kind = {"class_name": type(kind).__name__, "config": kind.get_config()}
        with self.recipe.scope():
            found = metrics.get(kind)
        name = kind if isinstance(kind, str) else getattr(found, "__name__", "metric")
        if not isinstance(found, metrics.Metric):
            return metrics.MeanMetricWrapper(found, name=name)
        return type(found)(name=name) if isinstance(kind, str) else found


def _kind_of_labels(measured: Measured) -> int:
    """Returns 0 for one output per example, 1 for labels that are classes, 2 for one-hot labels."""
    labels, output = measured.labels.shape, measured.output.shape
    if output[-1] == 1:
        return 0
    return 1 if labels.rank < output.rank or labels[-1] == 1 else 2


def _zeros_like(tensor: Tensor) -> Tensor:
    return tf.zeros([1 if size is None else size for size in tensor.shape], tensor.dtype)


def _as_functions(
    metric: Any, values: Sequence[np.ndarray], measured: Measured
) -> tuple[Any, Operation]:
    """Returns value and update of a metric of Keras 3, which is called as functions."""
    with v1.name_scope(metric.name):
        variables = [
            v1.Variable(
                value, trainable=False, collections=_COLLECTIONS, use_resource=True, name="state"
            )
            for value in values
        ]
        new = metric.stateless_update_state(
            _read(variables), measured.labels, measured.output, sample_weight=measured.weights
        )
        assigned = zip(variables, new, strict=True)
        update = v1.group(*(v1.assign(variable, value) for variable, value in assigned))
        read = _read(variables)
        result = metric.stateless_result(read)
        # A metric may return its own variable, which has no value here.
        states = dict(zip(map(id, metric.variables), read, strict=True))
        return states.get(id(result), result), update


def _read(variables: Sequence[Variable]) -> list[Tensor]:
    return [variable.read_value() for variable in variables]
