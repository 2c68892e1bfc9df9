"""Metrics of a compiled Keras model: which there are for each output, and their names."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf

from replicate._types import Tensor
from replicate.keras_model.batches import by_output, repeated, weights_like
from replicate.keras_model.losses import aligned_labels
from replicate.keras_model.metric_objects import Measured, MetricMaker


@dataclasses.dataclass(frozen=True)
class CompiledMetrics:
    """The metrics that a model was compiled with, as `compile` takes them.

    Attributes:
      maker: Makes the metrics' objects.
      plain: Metrics that ignore the examples' weights.
      weighted: Metrics that use them.
      new_names: Name in the results by the metric's name in Keras.
    """

    maker: MetricMaker
    plain: Any
    weighted: Any
    new_names: Mapping[str, str]

    def build(
        self, outputs: Mapping[str, Tensor], labels: Any, sample_weights: Any
    ) -> dict[str, Any]:
        """Adds the metrics to the graph. The arguments are those of `CompiledLosses.terms`.

        Returns:
          Metric name → (value, update), or a metric object of Keras 2. With several outputs, names
          begin with that of the output.

        Raises:
          ValueError: An output with a metric has no labels, or `new_names` names no metric.
        """
        names = list(outputs)
        targets = by_output(labels, names, "labels")
        weights = by_output(repeated(sample_weights, names), names, "sample weights")
        made: dict[str, Any] = {}
        for metrics, uses_weights in ((self.plain, False), (self.weighted, True)):
            for name, target, weight, kinds in zip(
                names, targets, weights, self._of_outputs(metrics, names), strict=True
            ):
                for kind in kinds:
                    measured = Measured(
                        aligned_labels(name, target, outputs[name], "metric"),
                        outputs[name],
                        self._masked(weight if uses_weights else None, outputs[name]),
                    )
                    metric_name, metric = self.maker.make(kind, measured)
                    if len(names) > 1 and not metric_name.startswith(f"{name}_"):
                        metric_name = f"{name}_{metric_name}"
                    made[_new_name(metric_name, made)] = metric
        return self._renamed(made)

    def _masked(self, weights: Any, output: Tensor) -> Any:
        """Returns weights that are 0 where the output is masked.

        Metrics of Keras 3 look for the mask themselves.
        """
        mask = getattr(output, "_keras_mask", None)
        if mask is None or self.maker.recipe.is_keras_3:
            return weights
        mask = tf.cast(mask, output.dtype)
        return mask if weights is None else mask * weights_like(mask, weights)

    def _of_outputs(self, metrics: Any, names: Sequence[str]) -> list[list[Any]]:
        """Returns a list of metrics for each output.

        With several outputs, Keras 3 takes a flat list as one metric for each output, Keras 2 as
        metrics of all outputs.
        """
        if not isinstance(metrics, Mapping) or _is_configuration(metrics):
            metrics = _as_list(metrics)
            is_flat = not any(isinstance(each, (list, tuple)) for each in metrics)
            if not metrics or (is_flat and not (self.maker.recipe.is_keras_3 and len(names) > 1)):
                return [metrics] * len(names)
        return [_as_list(each) for each in by_output(metrics, names, "metrics")]

    def _renamed(self, metrics: Mapping[str, Any]) -> dict[str, Any]:
        unknown = sorted(set(self.new_names) - set(metrics))
        if unknown:
            raise ValueError(
                f"model_to_estimator: metric_names_map names {unknown}, but the metrics of the "
                f"model are {sorted(metrics)}. Correct the names."
            )
        return {self.new_names.get(name, name): metric for name, metric in metrics.items()}


def _as_list(value: Any) -> list[Any]:
    if value is None:
        return []
    return list(value) if isinstance(value, (list, tuple)) else [value]


def _is_configuration(value: Mapping[str, Any]) -> bool:
    """Returns True for one serialized metric, False for metrics by output."""
    return {"class_name", "config"} <= set(value)


def _new_name(name: str, taken: Mapping[str, Any]) -> str:
    number, new = 0, name
    while new in taken:
        number += 1
        new = f"{name}_{number}"
    return new
