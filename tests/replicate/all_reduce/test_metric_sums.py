"""Metrics of workers: the sums in their variables, added up, and those that are no sums."""

import numpy as np
import pytest
import tensorflow as tf

import replicate
from replicate.all_reduce.metric_sums import MetricSums

v1 = tf.compat.v1

RANDOM = np.random.RandomState(0)
ROWS = 40
LABELS = RANDOM.randint(0, 2, ROWS)
SCORES = RANDOM.rand(ROWS).astype(np.float32)
PARTS = [slice(0, 13), slice(13, 17), slice(17, ROWS)]
M = v1.metrics


def from_five(scores):
    """A sum that does not begin at 0."""
    kept = local(5.0)
    return kept.read_value(), v1.assign_add(kept, tf.reduce_sum(scores))


METRICS = {
    "mean": lambda labels, scores: M.mean(scores),
    "weighted mean": lambda labels, scores: M.mean(scores, weights=scores),
    "accuracy": lambda labels, scores: M.accuracy(labels, scores > 0.5),
    "auc": M.auc,
    "precision": lambda labels, scores: M.precision(labels, scores > 0.5),
    "recall": lambda labels, scores: M.recall_at_thresholds(labels, scores, [0.2, 0.7]),
    "sensitivity": lambda labels, scores: M.sensitivity_at_specificity(labels, scores, 0.5),
    "false": lambda labels, scores: M.false_negatives(labels, scores > 0.5),
    "rmse": lambda labels, scores: M.root_mean_squared_error(tf.cast(labels, tf.float32), scores),
    "iou": lambda labels, scores: M.mean_iou(labels, tf.cast(scores > 0.5, tf.int64), 2),
    "per class": lambda labels, scores: M.mean_per_class_accuracy(
        labels, tf.cast(scores > 0.5, tf.int64), 2
    ),
    "average precision": lambda labels, scores: M.average_precision_at_k(
        tf.cast(labels, tf.int64)[:, None], tf.stack([scores, 1 - scores], axis=1), 2
    ),
    "from 5 on": lambda labels, scores: from_five(scores),
    "below": lambda labels, scores: M.percentage_below(scores, 0.3),
}


@pytest.mark.parametrize("uses_resources", [True, False])
def test_metrics_of_parts_are_those_of_the_whole(uses_resources):
    """Each part goes to a worker of its own, here one after the other in a session."""
    v1.enable_resource_variables() if uses_resources else v1.disable_resource_variables()
    try:
        with tf.Graph().as_default():
            labels = v1.placeholder(tf.int64, [None])
            scores = v1.placeholder(tf.float32, [None])
            metrics = {name: make(labels, scores) for name, make in METRICS.items()}
            sums = MetricSums(metrics)
            values, updates = zip(*metrics.values(), strict=True)
            start = v1.local_variables_initializer()
            with v1.Session() as session:
                session.run(start)
                session.run(updates, {labels: LABELS, scores: SCORES})
                expected = session.run(values)
                collected = []
                for part in PARTS:
                    session.run(start)
                    sums.begin(session)
                    session.run(updates, {labels: LABELS[part], scores: SCORES[part]})
                    collected.append(sums.read(session))
                sums.write(session, [sum(each) for each in zip(*collected, strict=True)])
                found = session.run(values)
    finally:
        v1.enable_resource_variables()
    for name, got, wanted in zip(METRICS, found, expected, strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-6, atol=1e-6, err_msg=name)


def test_sums_over_towers_are_sums():
    def model_fn(features, labels, mode):
        metrics = {"mean": M.mean(features), "auc": M.auc(labels, features)}
        return replicate.EstimatorSpec(mode, loss=tf.reduce_mean(features), eval_metric_ops=metrics)

    with tf.Graph().as_default():
        replicated = replicate.replicate_model_fn(model_fn, devices=["/cpu:0"] * 2)
        features = tf.constant(SCORES)
        spec = replicated(features, tf.constant(LABELS), replicate.ModeKeys.EVAL, None)
        assert len(MetricSums(spec.eval_metric_ops).facts) == 6


def local(initial=0.0):
    return v1.get_local_variable("kept", initializer=initial)


def largest(labels, scores):
    kept = local()
    return kept, v1.assign(kept, tf.maximum(kept, tf.reduce_max(scores)))


def running_mean(labels, scores):
    kept = local()
    return kept, v1.assign_add(kept, 0.1 * (tf.reduce_mean(scores) - kept))


def mean_by_a_count(labels, scores):
    """Its mean moves by additions that depend on another variable, which changes, too."""
    mean, count = local(), v1.get_local_variable("count", initializer=0.0)
    added = v1.assign_add(count, 1.0)
    return mean, v1.assign_add(mean, tf.reduce_mean(scores) / added)


def chosen(labels, scores):
    """Is assigned in a conditional of control flow version 1, behind a switch."""
    kept = local()
    v1.disable_control_flow_v2()
    try:
        larger = tf.reduce_max(scores) > kept
        return kept, tf.cond(larger, lambda: v1.assign(kept, tf.reduce_max(scores)), lambda: 0.0)
    finally:
        v1.enable_control_flow_v2()


def of_the_model(labels, scores):
    kept = v1.get_variable("kept", initializer=0.0, trainable=False)
    return kept.read_value(), v1.assign_add(kept, tf.reduce_mean(scores))


def of_python(labels, scores):
    return tf.numpy_function(lambda: np.float32(1.0), [], tf.float32), tf.no_op()


def of_last_batch(labels, scores):
    batch = v1.data.make_one_shot_iterator(tf.data.Dataset.range(3)).get_next()
    return batch, tf.no_op()


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (largest, r"'Assign\w*' \(Assign\w*\) may change its variable 'kept'"),
        (running_mean, "adds to its variable 'kept' a value that depends on the variable 'kept'"),
        (mean_by_a_count, "its variable 'kept' a value that depends on the variable 'count', whi"),
        (chosen, r"'cond/Assign\w*' \(Assign\w*\) may change its variable 'kept'"),
        (of_the_model, "its variable 'kept' is not a local one"),
        (of_python, r"its value depends on the operation 'PyFunc' \(PyFunc\)"),
        (of_last_batch, r"its value depends on the operation 'IteratorGetNext'"),
    ],
)
def test_metrics_that_are_no_sums_are_refused(make, reason):
    with tf.Graph().as_default():
        pair = make(tf.constant(LABELS), tf.constant(SCORES))
        with pytest.raises(ValueError, match=rf"Cannot evaluate metric 'mine' by .*{reason}"):
            MetricSums({"mine": pair, "loss": M.mean(1.0)})
