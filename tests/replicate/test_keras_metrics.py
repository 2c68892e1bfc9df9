"""Keras metric objects become pairs of value and update."""

from types import SimpleNamespace

import pytest
import tensorflow as tf

from replicate.keras_metrics import as_metric_pair

v1 = tf.compat.v1
LOCAL, METRIC = v1.GraphKeys.LOCAL_VARIABLES, v1.GraphKeys.METRIC_VARIABLES


def evaluate(pair, times=1):
    value, update = pair
    with v1.Session() as session:
        session.run(v1.local_variables_initializer())
        for _ in range(times):
            session.run(update)
        return session.run(value)


def test_variables_are_listed_once_in_their_order(graph, mean_metric):
    metric = mean_metric([1.0])
    for _ in range(2):
        as_metric_pair("mean", metric)
    for key in (LOCAL, METRIC):
        listed = v1.get_collection(key)
        assert [each.ref() for each in listed] == [each.ref() for each in metric.variables]
    assert v1.global_variables() == []


def test_all_updates_run(graph, mean_metric):
    metric = mean_metric([1.0])
    metric.update_state([2.0, 6.0])
    assert evaluate(as_metric_pair("mean", metric)) == 3.0


def test_own_keras_metric(graph, keras2):
    class Largest(keras2.metrics.Metric):
        def __init__(self):
            super().__init__()
            self.largest = self.add_weight(name="largest", initializer="zeros")

        def update_state(self, values):
            self.largest.assign(tf.maximum(self.largest, tf.reduce_max(values)))

        def result(self):
            return self.largest

    metric = Largest()
    metric.update_state([1.0, 7.0, 2.0])
    assert evaluate(as_metric_pair("largest", metric)) == 7.0


def test_other_values_are_returned_as_they_are(graph):
    pair = v1.metrics.mean([1.0])
    assert as_metric_pair("mean", pair) is pair
    done = SimpleNamespace(result=print)
    assert as_metric_pair("mean", done) is done


def test_metric_without_update_is_refused(graph, keras2):
    with pytest.raises(ValueError, match=r"'acc': .*\.Accuracy has no update\. Call its update_st"):
        as_metric_pair("acc", keras2.metrics.Accuracy())


def test_metric_of_another_graph_is_refused(graph, mean_metric):
    metric = mean_metric([1.0])
    with tf.Graph().as_default(), pytest.raises(ValueError, match=r"'mean'.* outside of the model"):
        as_metric_pair("mean", metric)


def test_keras_3_metric_is_refused(graph):
    keras = pytest.importorskip("keras", "3.0")
    metric = keras.metrics.Accuracy()
    metric.update_state([1, 2], [1, 3])
    expected = (
        r"Cannot evaluate metric 'acc': .*\.Accuracy is a metric of Keras 3, which loses its "
        r"updates in a graph\. Write .*\{'acc': tf\.compat\.v1\.metrics\.accuracy\(labels, pred"
    )
    with pytest.raises(TypeError, match=expected):
        as_metric_pair("acc", metric)


def test_any_object_with_result_and_updates_is_a_metric(graph):
    value, update = v1.metrics.mean([1.0, 4.0])
    metric = SimpleNamespace(result=lambda: value, updates=[update])
    assert evaluate(as_metric_pair("mean", metric)) == 2.5
