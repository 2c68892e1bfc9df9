"""Metrics on N towers are those on one: counts exactly, quotients and sums of floats to 1e-6.

The reference is the model_fn without towers, called once on the whole batch; what it counts is
itself checked against NumPy.
"""

import functools

import numpy as np
import pytest
import tensorflow as tf

import replicate
from replicate.graph_ops.checks import user_errors

v1 = tf.compat.v1

UNEVEN = (3, 7, 6, 7)
"""Rows of the batches of one evaluation; on 4 towers three rows leave one without a row."""
CLASSES = 3
INEXACT = ("mean/total",)
"""The metric variable that adds up floats; all others count."""


def batches(rows):
    """Numbers [rows, 4] and classes [rows] that mostly follow from them."""
    random = np.random.default_rng(5)
    made = []
    for count in rows:
        numbers = random.normal(size=[count, 4]).astype(np.float32)
        noisy = numbers[:, :CLASSES] + random.normal(size=[count, CLASSES])
        made.append((numbers, noisy.argmax(axis=1)))
    return made


def model_fn(features, labels, mode):
    scale = v1.get_variable("scale", initializer=2.0)
    logits = scale * features[:, :CLASSES]
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)
    found = tf.argmax(logits, axis=1)
    positive, first = tf.equal(labels, 0), tf.nn.softmax(logits)[:, 0]
    metrics = {
        "accuracy": v1.metrics.accuracy(labels, found),
        "mean": v1.metrics.mean(features),
        "auc": v1.metrics.auc(positive, first),
        "mean_iou": v1.metrics.mean_iou(labels, found, CLASSES),
        "precision": v1.metrics.precision(positive, tf.equal(found, 0)),
        "recall": v1.metrics.recall(positive, tf.equal(found, 0), weights=features[:, 3] > 0),
    }
    return replicate.EstimatorSpec(mode, loss=tf.reduce_mean(losses), eval_metric_ops=metrics)


def evaluate(evaluated_fn, rows, known=False):
    """Returns the losses, the metrics, and the metric variables by name, after all batches."""
    with tf.Graph().as_default():
        features = v1.placeholder(tf.float32, [rows[0] if known else None, 4])
        labels = v1.placeholder(tf.int64, [rows[0] if known else None])
        spec = evaluated_fn(features, labels, "eval")
        updates = [update for _, update in spec.eval_metric_ops.values()]
        values = {name: value for name, (value, _) in spec.eval_metric_ops.items()}
        variables = {v.op.name: v for v in v1.get_collection(v1.GraphKeys.METRIC_VARIABLES)}
        with v1.Session() as session, user_errors():
            session.run([v1.global_variables_initializer(), v1.local_variables_initializer()])
            losses = [
                session.run([spec.loss, updates], {features: x, labels: y})[0]
                for x, y in batches(rows)
            ]
            return losses, *session.run([values, variables])


@functools.cache
def reference(rows):
    return evaluate(model_fn, rows)


@pytest.mark.parametrize(
    ("rows", "known"), [(UNEVEN, False), pytest.param((3, 3), True, marks=pytest.mark.broad)]
)
def test_towers_measure_as_one(rows, known):
    devices = [f"/cpu:{index}" for index in range(4)]
    towers_fn = replicate.replicate_model_fn(
        model_fn, v1.losses.Reduction.MEAN, devices=devices, uneven="weighted"
    )
    check(evaluate(towers_fn, rows, known), reference(rows))


def check(got, expected):
    losses, values, variables = got
    expected_losses, expected_values, expected_variables = expected
    for name, value in expected_variables.items():
        bound = 1e-6 * np.abs(value).max() if name in INEXACT else 0.0
        np.testing.assert_allclose(variables[name], value, rtol=0, atol=bound, err_msg=name)
    for name in variables.keys() - expected_variables.keys():
        assert not np.any(variables[name]), f"{name} was taken in by tower 0"
    assert values.keys() == expected_values.keys()
    for name, value in expected_values.items():
        np.testing.assert_allclose(values[name], value, rtol=1e-6, err_msg=name)
    np.testing.assert_allclose(losses, expected_losses, rtol=2e-6)


def test_the_reference_counts_as_numpy_does():
    _, values, variables = reference(UNEVEN)
    numbers, labels = (np.concatenate(parts) for parts in zip(*batches(UNEVEN), strict=True))
    found = numbers[:, :CLASSES].argmax(axis=1)
    confusion = np.zeros([CLASSES, CLASSES])
    np.add.at(confusion, (labels, found), 1)
    right = np.diag(confusion)
    np.testing.assert_array_equal(variables["mean_iou/total_confusion_matrix"], confusion)
    counted = numbers[:, 3] > 0
    hit = (labels == 0) & (found == 0) & counted
    expected = {
        "accuracy": right.sum() / confusion.sum(),
        "mean": numbers.mean(),
        "mean_iou": np.mean(right / (confusion.sum(axis=0) + confusion.sum(axis=1) - right)),
        "precision": right[0] / confusion[:, 0].sum(),
        "recall": hit.sum() / ((labels == 0) & counted).sum(),
    }
    for name, value in expected.items():
        np.testing.assert_allclose(values[name], value, rtol=1e-6, err_msg=name)
    assert 0.5 < values["auc"] < 1.0
