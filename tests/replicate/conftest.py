"""Metric objects for the tests: of Keras 2 where it is installed, and what stands in for it."""

import importlib.util

import pytest
import tensorflow as tf

v1 = tf.compat.v1


class MeanMetric:
    """A mean that has what Keras 2 gives its metrics: result(), updates, and variables."""

    def __init__(self):
        self.variables = [
            v1.Variable(
                0.0,
                trainable=False,
                collections=[],
                use_resource=True,
                synchronization=tf.VariableSynchronization.ON_READ,
                aggregation=tf.VariableAggregation.SUM,
            )
            for _ in range(2)
        ]
        self.updates = []

    def update_state(self, values):
        total, count = self.variables
        with v1.control_dependencies([v1.assign_add(total, tf.reduce_sum(values))]):
            self.updates.append(v1.assign_add(count, tf.cast(tf.size(values), tf.float32)).op)

    def result(self):
        total, count = self.variables
        return tf.math.divide_no_nan(total.read_value(), count.read_value())


@pytest.fixture
def keras2():
    """The module of Keras 2."""
    if hasattr(tf, "estimator"):
        return tf.keras
    if importlib.util.find_spec("tf_keras") is None:
        pytest.skip("tf-keras is not installed")
    return importlib.import_module("tf_keras")


@pytest.fixture(params=["stand-in", "keras2"])
def mean_metric(request):
    """Makes a metric object that takes the mean of some values."""
    kind = MeanMetric
    if request.param == "keras2":
        kind = request.getfixturevalue("keras2").metrics.Mean

    def make(values):
        metric = kind()
        metric.update_state(values)
        return metric

    return make
