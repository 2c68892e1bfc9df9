"""Statistics, against formulas in NumPy and against tf.compat.v1.metrics."""

import numpy as np
import pytest
import tensorflow as tf

from replicate import EstimatorSpec, ModeKeys
from replicate.canned.heads import measures
from replicate.canned.heads.metric_objects import Metric

v1 = tf.compat.v1

_random = np.random.default_rng(0)
LABELS = (_random.random([2, 40, 1]) < 0.4).astype(np.float32)
PROBABILITIES = np.clip(_random.normal(0.3 + 0.3 * LABELS, 0.2), 0, 1).astype(np.float32)
WEIGHTS = _random.integers(0, 4, [2, 40, 1]).astype(np.float32)


def statistic(measure, *batches):
    """The statistic of several batches of (*values, weights)."""
    sums = [measure.sums(*map(tf.constant, batch)) for batch in batches]
    return float(measure.result(*map(tf.add_n, zip(*sums, strict=True))))


def test_statistics_of_soft_labels_of_ones_and_of_batches():
    soft = (np.float32([0.2, 0.0]), np.float32([1.0, 1.0]), np.float32([1.0, 1.0]))
    assert statistic(measures.precision(), soft) == 0.5
    assert statistic(measures.recall(), soft) == 1
    ones = np.ones([3], np.float32)
    assert statistic(measures.majority(), (ones, ones)) == 1
    assert statistic(measures.batch_mean(), (3.0, 9.0), (5.0, 1.0)) == 4


def test_undefined_statistics_are_zero():
    zero = np.zeros([2], np.float32)
    for measure in (measures.precision(), measures.recall()):
        assert statistic(measure, (zero, zero, zero)) == 0
    assert statistic(measures.mean(), (zero, zero)) == 0


def test_areas_are_those_of_tensorflow(graph):
    settings = {"weights": WEIGHTS, "summation_method": "careful_interpolation"}
    values = [
        v1.metrics.auc(LABELS, PROBABILITIES, curve=curve, **settings) for curve in ("ROC", "PR")
    ]
    ours = [
        area.result(*area.sums(*map(tf.constant, (LABELS, PROBABILITIES, WEIGHTS))))
        for area in (measures.area("ROC"), measures.area("PR"))
    ]
    area = measures.area("PR", "trapezoidal")
    small = np.float32([[1, 0, 1], [0.9, 0.6, 0.3], [1, 2, 3]])
    for batch in ((LABELS, PROBABILITIES, 1 + WEIGHTS), small, small[:, :1]):
        values.append(v1.metrics.auc(*batch, curve="PR", summation_method="trapezoidal"))
        ours.append(area.result(*area.sums(*map(tf.constant, batch))))
    with v1.Session() as session:
        session.run(v1.local_variables_initializer())
        session.run([update for _, update in values])
        expected, got = session.run(([value for value, _ in values], ours))
    np.testing.assert_allclose(got, expected, rtol=1e-5)


def test_areas_of_small_batches():
    for labels, probabilities, roc, precision_recall in (
        ([1, 0], [0.111, 0.111], 0.5, 0.5),
        ([1, 1], [0.9, 0.4], 0, 1),
        ([0, 0], [0.9, 0.4], 0, 0),
    ):
        batch = [np.float32(each) for each in (labels, probabilities, [1, 1])]
        assert statistic(measures.area("ROC"), batch) == pytest.approx(roc, abs=5e-5)
        assert statistic(measures.area("PR"), batch) == pytest.approx(precision_recall, abs=1e-4)


def test_updates_run_in_a_graph(graph):
    metric = Metric("mean", measures.mean())
    for key in (v1.GraphKeys.LOCAL_VARIABLES, v1.GraphKeys.METRIC_VARIABLES):
        assert [each.op.name.split("/")[0] for each in v1.get_collection(key)] == ["mean"] * 2
    assert v1.global_variables() == []
    update = metric.update_state(tf.constant([1.0, 2.0]))
    metric.update_state(tf.constant([9.0]))
    spec = EstimatorSpec(ModeKeys.EVAL, loss=tf.constant(0.0), eval_metric_ops={"m": metric})
    value, updates = spec.eval_metric_ops["m"]
    with v1.Session() as session:
        session.run(v1.local_variables_initializer())
        session.run(update)
        assert session.run(value) == 1.5
        session.run(updates)
        assert session.run(value) == (3 + 3 + 9) / 5


def test_step_that_fails_adds_nothing(graph):
    """The count of a batch of known size does not depend on the values."""
    metric = Metric("mean", measures.mean())
    values = tf.debugging.check_numerics(v1.placeholder(tf.float32, [2]), "end of input")
    metric.update_state(values)
    with v1.Session() as session:
        session.run(v1.local_variables_initializer())
        with pytest.raises(tf.errors.InvalidArgumentError, match="end of input"):
            session.run(metric.updates, {values.op.inputs[0]: [float("nan"), 1.0]})
        assert session.run(metric.variables) == [0, 0]
