"""Statistics, against formulas in NumPy and against tf.compat.v1.metrics."""

import numpy as np
import pytest
import tensorflow as tf

from replicate import EstimatorSpec, ModeKeys
from replicate.canned.heads import measures
from replicate.canned.heads.measures import area, mean
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


def of_both(measure, *values):
    """The statistic of two batches."""
    return statistic(measure, *zip(*values, WEIGHTS, strict=True))


def average(values):
    return np.average(values, weights=WEIGHTS)


def test_mean():
    assert of_both(measures.mean(), PROBABILITIES) == pytest.approx(average(PROBABILITIES))
    wide = np.arange(6.0, dtype=np.float32).reshape(3, 2)
    got = statistic(measures.mean(), (wide, np.array([[1.0], [0.0], [2.0]], np.float32)))
    assert got == pytest.approx((0 + 1 + 8 + 10) / 6)


def test_accuracy():
    predicted = (PROBABILITIES > 0.5).astype(np.int64)
    expected = average(predicted == LABELS)
    assert of_both(measures.accuracy(), LABELS, predicted) == pytest.approx(expected)
    expected = average((PROBABILITIES > 0.3) == LABELS)
    assert of_both(measures.accuracy_at(0.3), LABELS, PROBABILITIES) == pytest.approx(expected)


def test_accuracy_of_the_majority():
    assert of_both(measures.majority(), LABELS) == pytest.approx(1 - average(LABELS))
    ones = np.ones([3], np.float32)
    assert statistic(measures.majority(), (ones, ones)) == 1


@pytest.mark.parametrize("threshold", [0.25, 0.5])
def test_precision_and_recall(threshold):
    positive = threshold < PROBABILITIES
    true = np.sum(WEIGHTS * positive * LABELS)
    got = of_both(measures.precision(threshold), LABELS, PROBABILITIES)
    assert got == pytest.approx(true / np.sum(WEIGHTS * positive))
    got = of_both(measures.recall(threshold), LABELS, PROBABILITIES)
    assert got == pytest.approx(true / np.sum(WEIGHTS * LABELS))


def test_soft_label_counts_as_positive():
    values = (np.float32([0.2, 0.0]), np.float32([1.0, 1.0]), np.float32([1.0, 1.0]))
    assert statistic(measures.precision(), values) == 0.5
    assert statistic(measures.recall(), values) == 1


def test_undefined_statistics_are_zero():
    zero = np.zeros([2], np.float32)
    for measure in (measures.precision(), measures.recall()):
        assert statistic(measure, (zero, zero, zero)) == 0
    assert statistic(measures.mean(), (zero, zero)) == 0


def test_areas_are_those_of_tensorflow(graph):
    values = [
        v1.metrics.auc(
            LABELS,
            PROBABILITIES,
            weights=WEIGHTS,
            curve=curve,
            summation_method="careful_interpolation",
        )
        for curve in ("ROC", "PR")
    ]
    ours = [
        measure.result(*measure.sums(*map(tf.constant, (LABELS, PROBABILITIES, WEIGHTS))))
        for measure in (measures.area("ROC"), measures.area("PR"))
    ]
    with v1.Session() as session:
        session.run(v1.local_variables_initializer())
        session.run([update for _, update in values])
        expected, got = session.run(([value for value, _ in values], ours))
    np.testing.assert_allclose(got, expected, rtol=1e-5)
    np.testing.assert_allclose(got[0], rank_statistic(), atol=2e-3)


@pytest.mark.parametrize("examples", [1, 80])
def test_trapezoids_are_those_of_tensorflow(examples, graph):
    batch = [each.reshape([-1])[:examples] for each in (LABELS, PROBABILITIES, 1 + WEIGHTS)]
    value, update = v1.metrics.auc(batch[0], batch[1], weights=batch[2], curve="PR")
    measure = measures.area("PR", "trapezoidal")
    ours = measure.result(*measure.sums(*map(tf.constant, batch)))
    with v1.Session() as session:
        session.run(v1.local_variables_initializer())
        session.run(update)
        expected, got = session.run([value, ours])
    assert got == pytest.approx(expected, abs=1e-6)


def rank_statistic():
    """The probability that a positive is ranked above a negative, which is the area under ROC."""
    positive, negative = LABELS.ravel() == 1, LABELS.ravel() == 0
    p, w = PROBABILITIES.ravel(), WEIGHTS.ravel()
    difference = p[positive][:, None] - p[negative]
    pairs = w[positive][:, None] * w[negative]
    return np.sum(pairs * ((difference > 0) + 0.5 * (difference == 0))) / np.sum(pairs)


def sigmoid(x):
    return 1 / (1 + np.exp(-np.array(x, np.float64)))


@pytest.mark.parametrize(
    ("labels", "probabilities", "weights", "roc", "precision_recall"),
    [
        ([1, 0], [0.111, 0.111], [1, 1], 0.5, 0.5),
        ([1, 1, 0], sigmoid([45, -41, 44]), [1, 0.1, 1.5], 0.45454565, 0.4010627),
        ([1, 1], [0.9, 0.4], [1, 1], 0, 1),
        ([0, 0], [0.9, 0.4], [1, 1], 0, 0),
        ([[1, 0], [1, 1]], sigmoid([[-1, 1], [-1.5, 1.5]]), [[1], [1]], 0.3333, 0.7689),
    ],
)
def test_areas_of_small_batches(labels, probabilities, weights, roc, precision_recall):
    batch = [np.float32(each) for each in (labels, probabilities, weights)]
    assert statistic(measures.area("ROC"), batch) == pytest.approx(roc, abs=5e-5)
    assert statistic(measures.area("PR"), batch) == pytest.approx(precision_recall, abs=1e-4)


def test_mean_of_batches():
    assert statistic(measures.batch_mean(), (3.0, 9.0), (5.0, 1.0)) == 4


def test_batches_add_up_eagerly():
    metric = Metric("mean", mean())
    assert metric.result() == 0
    assert metric.update_state([1.0, 2.0]) is None
    metric.update_state([7.0], sample_weight=[2])
    assert float(metric.result()) == pytest.approx((1 + 2 + 14) / 4)
    assert metric.updates == []


def test_updates_run_in_a_graph(graph):
    metric = Metric("mean", mean())
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
    metric = Metric("mean", mean())
    values = tf.debugging.check_numerics(v1.placeholder(tf.float32, [2]), "end of input")
    metric.update_state(values)
    with v1.Session() as session:
        session.run(v1.local_variables_initializer())
        with pytest.raises(tf.errors.InvalidArgumentError, match="end of input"):
            session.run(metric.updates, {values.op.inputs[0]: [float("nan"), 1.0]})
        assert session.run(metric.variables) == [0, 0]


def test_variables_are_local_metric_variables(graph):
    variables = Metric("auc", area("ROC")).variables
    assert [each.op.name for each in variables] == [
        "auc/true_positives",
        "auc/false_positives",
    ]
    for key in (v1.GraphKeys.LOCAL_VARIABLES, v1.GraphKeys.METRIC_VARIABLES):
        assert [each.ref() for each in v1.get_collection(key)] == [v.ref() for v in variables]
    assert v1.global_variables() == []
