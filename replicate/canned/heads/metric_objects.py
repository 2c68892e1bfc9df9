"""Metric objects: sums in variables that batches update, in a graph or eagerly.

In a graph an object is what `EstimatorSpec(eval_metric_ops=…)` takes: it has `result()`, `updates`
and `variables`. Its variables are local and metric variables, whose sums `replicate_model_fn` adds
over the towers. `measures` has the statistics.
"""

import re
import typing

import tensorflow as tf

from replicate._types import Operation, Tensor, Variable
from replicate.canned.heads.measures import Measure

v1 = tf.compat.v1

_COLLECTIONS = [v1.GraphKeys.LOCAL_VARIABLES, v1.GraphKeys.METRIC_VARIABLES]


@typing.final
class Metric:
    """One statistic of all batches since the object was made.

    Attributes:
      name: Name of the metric.
      variables: Its sums.
      updates: Operations that add batches, one for each call of `update_state` in a graph. Eagerly
        there are none: a batch is added at once.
    """

    def __init__(self, name: str, measure: Measure) -> None:
        """Makes the variables, with value 0, named after the metric as TensorFlow accepts it."""
        self.name = name
        self.updates: list[Operation] = []
        self._measure = measure
        shape = [] if measure.length is None else [measure.length]
        with v1.name_scope(scope_name(name)):
            self.variables: list[Variable] = [
                v1.Variable(
                    tf.zeros(shape),
                    trainable=False,
                    collections=_COLLECTIONS,
                    name=each,
                    use_resource=True,
                    synchronization=tf.VariableSynchronization.ON_READ,
                    aggregation=tf.VariableAggregation.SUM,
                )
                for each in measure.names
            ]

    def update_state(self, *values: Tensor, sample_weight: Tensor | None = None) -> Operation:
        """Adds a batch.

        Args:
          *values: Values of the examples, as the measure takes them: a mean takes the values, other
            statistics take labels and predictions.
          sample_weight: Weights that broadcast to the values; None for 1.

        Returns:
          The update; None where operations run eagerly.
        """
        weights = tf.constant(1.0) if sample_weight is None else tf.cast(sample_weight, tf.float32)
        with v1.name_scope(scope_name(self.name)):
            sums = self._measure.sums(*map(tf.convert_to_tensor, values), weights)
            # A count is known before the values: without this, the step in which the input ends
            # would still add it.
            with v1.control_dependencies([] if tf.executing_eagerly() else list(sums)):
                added = [
                    v1.assign_add(variable, each)
                    for variable, each in zip(self.variables, sums, strict=True)
                ]
            if tf.executing_eagerly():
                return None
            self.updates.append(v1.group(*added, name="update"))
        return self.updates[-1]

    def result(self) -> Tensor:
        """Returns the statistic, a float32 scalar; 0 before the first batch."""
        with v1.name_scope(scope_name(self.name)):
            return self._measure.result(*(each.read_value() for each in self.variables))


def scope_name(name: str) -> str:
    """Returns a name for a scope of operations, which may contain few characters only."""
    return re.sub(r"[^A-Za-z0-9_./-]", "_", name).lstrip("_./-") or "unnamed"
