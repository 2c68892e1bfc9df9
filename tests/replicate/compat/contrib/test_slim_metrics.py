"""Metrics and losses of tf.contrib and slim take predictions before labels."""

import numpy as np
import pytest
import tensorflow as tf

from replicate.compat.contrib import losses, metrics, slim

v1 = tf.compat.v1
pytestmark = pytest.mark.usefixtures("graph")
RANDOM = np.random.default_rng(2)
LABELS = RANDOM.integers(0, 2, 20).astype("f4")
GUESSES = RANDOM.integers(0, 2, 20).astype("f4")
WEIGHTS = RANDOM.uniform(0.5, 2, 20).astype("f4")
SCORES = RANDOM.uniform(size=20).astype("f4")
TARGETS = RANDOM.uniform(1, 2, size=20).astype("f4")
TABLE = RANDOM.normal(size=[20, 4]).astype("f4")
CLASSES = RANDOM.integers(0, 4, 20)
ONE_HOT = np.eye(4, dtype="f4")[CLASSES]
RANKS = (-TABLE).argsort(1).argsort(1)[np.arange(20), CLASSES]
UNIT = TABLE / np.linalg.norm(TABLE, axis=1, keepdims=True)


def agree(found, pairs, rtol):
    for name, (_, expected) in pairs.items():
        np.testing.assert_allclose(found[name], expected, rtol=rtol, err_msg=name)


def area_under_curve(scores, labels):
    positive, negative = scores[labels == 1], scores[labels == 0]
    return (positive[:, None] > negative).mean()


def overlap(label):
    guessed, real = label == GUESSES, label == LABELS
    return (guessed & real).sum() / (guessed | real).sum()


def test_streaming_metrics_agree_with_numpy():
    streaming = {
        "accuracy": ((GUESSES, LABELS, WEIGHTS), np.average(GUESSES == LABELS, weights=WEIGHTS)),
        "mean": ((SCORES, WEIGHTS), np.average(SCORES, weights=WEIGHTS)),
        "precision": ((GUESSES, LABELS), LABELS[GUESSES == 1].mean()),
        "recall": ((GUESSES, LABELS), GUESSES[LABELS == 1].mean()),
        "auc": ((SCORES, LABELS, None, 2000), area_under_curve(SCORES, LABELS)),
        "recall_at_k": ((TABLE, CLASSES, 2), (RANKS < 2).mean()),
        "sparse_average_precision_at_k": ((TABLE, CLASSES[:, None], 4), (1 / (RANKS + 1)).mean()),
        "mean_squared_error": ((SCORES, TARGETS), ((SCORES - TARGETS) ** 2).mean()),
        "mean_absolute_error": ((SCORES, TARGETS), abs(SCORES - TARGETS).mean()),
        "mean_relative_error": (  # Divided by the third argument.
            (SCORES, TARGETS, TARGETS),
            (abs(SCORES - TARGETS) / TARGETS).mean(),
        ),
        "mean_cosine_distance": (
            (tf.constant(UNIT), tf.constant(ONE_HOT), 1),
            (1 - (UNIT * ONE_HOT).sum(1)).mean(),
        ),
        "pearson_correlation": ((SCORES, TARGETS), np.corrcoef(SCORES, TARGETS)[0, 1]),
        "mean_iou": ((tf.constant(GUESSES), tf.constant(LABELS), 2), (overlap(0) + overlap(1)) / 2),
        "concat": ((tf.constant(SCORES),), SCORES),
    }
    made = {
        name: getattr(metrics, f"streaming_{name}")(*arguments)
        for name, (arguments, _) in streaming.items()
    }
    made["count"], streaming["count"] = metrics.count(tf.constant(SCORES)), (None, 20)
    with v1.Session() as session:
        session.run(v1.local_variables_initializer())
        session.run([update for _, update in made.values()])
        found = session.run({name: value for name, (value, _) in made.items()})
    agree(found, streaming, rtol=2e-3)


def test_maps_and_sets(evaluate):
    mean = slim.metrics.streaming_mean(SCORES, metrics_collections=["m"])
    values, updates = slim.metrics.aggregate_metric_map({"a": mean})
    assert v1.get_collection("m") == [values["a"]]
    assert updates == {"a": mean[1]}
    matrix = evaluate(metrics.confusion_matrix([0, 1, 1], [1, 1, 1], 2))
    np.testing.assert_array_equal(matrix, [[0, 1], [0, 2]])
    common = metrics.set_intersection(tf.constant([[1, 2]]), tf.constant([[2, 3]]))
    assert evaluate(common).values.tolist() == [2]
    assert evaluate(metrics.set_size(common)).tolist() == [1]


def log_softmax(x):
    return x - np.log(np.exp(x).sum(1, keepdims=True))


def test_losses_agree_with_numpy_and_are_collected(evaluate):
    scores, targets, labels, table, one_hot = (
        tf.constant(each) for each in (SCORES, TARGETS, LABELS, TABLE, ONE_HOT)
    )
    signs, smooth = 2 * LABELS - 1, ONE_HOT * 0.8 + 0.05
    pairs = {
        "softmax": (
            losses.softmax_cross_entropy(table, one_hot, WEIGHTS),
            -((log_softmax(TABLE) * ONE_HOT).sum(1) * WEIGHTS).sum() / 20,
        ),
        "smoothed": (
            slim.losses.softmax_cross_entropy(table, one_hot, label_smoothing=0.2),
            -(log_softmax(TABLE) * smooth).sum(1).mean(),
        ),
        "squared": (
            losses.mean_squared_error(scores, targets, 2.0),
            2 * ((SCORES - TARGETS) ** 2).mean(),
        ),
        "pairwise": (  # A sum over the batch, unlike that of tf.losses.
            losses.mean_pairwise_squared_error(table, one_hot),
            (2 * (TABLE - ONE_HOT).var(1)).sum(),
        ),
        "cosine": (
            losses.cosine_distance(table, one_hot, 1),
            (1 - (TABLE * ONE_HOT).sum(1)).mean(),
        ),
    }
    collected = [tensor for tensor, _ in pairs.values()]
    assert losses.get_losses() == v1.get_collection(v1.GraphKeys.LOSSES) == collected
    total = losses.get_total_loss()
    pairs["hinge"] = losses.hinge_loss(scores, labels), np.maximum(1 - signs * SCORES, 0)
    pairs["total"] = total, sum(expected for _, expected in pairs.values() if np.ndim(expected) < 1)
    agree(evaluate({name: tensor for name, (tensor, _) in pairs.items()}), pairs, rtol=1e-4)


def test_regularization_and_own_losses_count(evaluate):
    losses.add_loss(tf.constant(3.0))
    slim.fully_connected(TABLE, 2, weights_regularizer=lambda weights: tf.constant(4.0))
    assert len(losses.get_regularization_losses()) == 1
    assert evaluate(losses.get_total_loss()) == 7
    assert evaluate(losses.get_total_loss(add_regularization_losses=False)) == 3
    assert evaluate(losses.compute_weighted_loss(tf.constant([1.0, 2.0]), 2.0)) == 3
