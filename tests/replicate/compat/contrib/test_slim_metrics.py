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


def streamed(pair):
    """Returns the value of a metric after its update."""
    value, update = pair
    with v1.Session() as session:
        session.run(v1.local_variables_initializer())
        session.run(update)
        return session.run(value)


def area_under_curve(scores, labels):
    positive, negative = scores[labels == 1], scores[labels == 0]
    return (positive[:, None] > negative).mean()


STREAMING = {
    "accuracy": (
        lambda: metrics.streaming_accuracy(GUESSES, LABELS, WEIGHTS),
        np.average(GUESSES == LABELS, weights=WEIGHTS),
    ),
    "mean": (
        lambda: metrics.streaming_mean(SCORES, WEIGHTS),
        np.average(SCORES, weights=WEIGHTS),
    ),
    "mean_tensor": (
        lambda: metrics.streaming_mean_tensor(SCORES),
        SCORES,
    ),
    "precision": (
        lambda: metrics.streaming_precision(GUESSES, LABELS),
        LABELS[GUESSES == 1].mean(),
    ),
    "recall": (
        lambda: metrics.streaming_recall(GUESSES, LABELS),
        GUESSES[LABELS == 1].mean(),
    ),
    "true_positives": (
        lambda: metrics.streaming_true_positives(GUESSES, LABELS),
        (GUESSES * LABELS).sum(),
    ),
    "false_negatives": (
        lambda: metrics.streaming_false_negatives(GUESSES, LABELS),
        ((1 - GUESSES) * LABELS).sum(),
    ),
    "false_positive_rate": (
        lambda: metrics.streaming_false_positive_rate(GUESSES, LABELS),
        GUESSES[LABELS == 0].mean(),
    ),
    "auc": (
        lambda: metrics.streaming_auc(SCORES, LABELS, num_thresholds=2000),
        area_under_curve(SCORES, LABELS),
    ),
    "recall_at_k": (
        lambda: metrics.streaming_recall_at_k(TABLE, CLASSES, 2),
        (RANKS < 2).mean(),
    ),
    "sparse_recall_at_k": (
        lambda: metrics.streaming_sparse_recall_at_k(TABLE, CLASSES[:, None], 2),
        (RANKS < 2).mean(),
    ),
    "sparse_precision_at_k": (
        lambda: metrics.streaming_sparse_precision_at_k(TABLE, CLASSES[:, None], 2),
        (RANKS < 2).mean() / 2,
    ),
    "sparse_average_precision_at_k": (
        lambda: metrics.streaming_sparse_average_precision_at_k(TABLE, CLASSES[:, None], 4),
        (1 / (RANKS + 1)).mean(),
    ),
    "precision_at_thresholds": (
        lambda: metrics.streaming_precision_at_thresholds(SCORES, LABELS, [0.5]),
        [LABELS[SCORES > 0.5].mean()],
    ),
    "mean_squared_error": (
        lambda: metrics.streaming_mean_squared_error(SCORES, TARGETS),
        ((SCORES - TARGETS) ** 2).mean(),
    ),
    "root_mean_squared_error": (
        lambda: metrics.streaming_root_mean_squared_error(SCORES, TARGETS),
        np.sqrt(((SCORES - TARGETS) ** 2).mean()),
    ),
    "mean_absolute_error": (
        lambda: metrics.streaming_mean_absolute_error(SCORES, TARGETS),
        abs(SCORES - TARGETS).mean(),
    ),
    "mean_relative_error": (  # Divided by the third argument.
        lambda: metrics.streaming_mean_relative_error(SCORES, TARGETS, TARGETS),
        (abs(SCORES - TARGETS) / TARGETS).mean(),
    ),
    "mean_cosine_distance": (
        lambda: metrics.streaming_mean_cosine_distance(
            tf.nn.l2_normalize(TABLE, 1), tf.constant(ONE_HOT), 1
        ),
        (1 - (TABLE / np.linalg.norm(TABLE, axis=1, keepdims=True) * ONE_HOT).sum(1)).mean(),
    ),
    "pearson_correlation": (
        lambda: metrics.streaming_pearson_correlation(SCORES, TARGETS),
        np.corrcoef(SCORES, TARGETS)[0, 1],
    ),
    "covariance": (
        lambda: metrics.streaming_covariance(SCORES, TARGETS),
        np.cov(SCORES, TARGETS)[0, 1],
    ),
    "percentage_less": (
        lambda: metrics.streaming_percentage_less(SCORES, 0.5),
        (SCORES < 0.5).mean(),
    ),
    "mean_iou": (
        lambda: metrics.streaming_mean_iou(tf.constant(GUESSES), tf.constant(LABELS), 2),
        np.mean(
            [
                ((i == GUESSES) & (i == LABELS)).sum() / ((i == GUESSES) | (i == LABELS)).sum()
                for i in (0, 1)
            ]
        ),
    ),
    "concat": (lambda: metrics.streaming_concat(tf.constant(SCORES)), SCORES),
    "count": (lambda: metrics.count(tf.constant(SCORES)), 20),
}


@pytest.mark.parametrize("name", STREAMING)
def test_streaming_metric_agrees_with_numpy(name):
    make, expected = STREAMING[name]
    np.testing.assert_allclose(streamed(make()), expected, rtol=2e-3)


def test_maps_of_metrics_are_taken_apart_and_collected():
    values, updates = slim.metrics.aggregate_metric_map(
        {
            "a": slim.metrics.streaming_mean(SCORES, metrics_collections=["m"]),
            "b": slim.metrics.streaming_accuracy(
                GUESSES, LABELS, updates_collections="u", name="x"
            ),
        }
    )
    assert v1.get_collection("m") == [values["a"]]
    assert v1.get_collection("u") == [updates["b"]]
    both = slim.metrics.aggregate_metrics(metrics.streaming_mean(1.0), metrics.streaming_mean(2.0))
    assert [len(each) for each in both] == [2, 2]
    assert values["b"].op.name.startswith("x/")


def value(tensor):
    with v1.Session() as session:
        return session.run(tensor)


def test_other_metrics():
    assert value(metrics.accuracy(tf.constant([1, 2]), tf.constant([1, 3]))) == 0.5
    matrix = value(metrics.confusion_matrix([0, 1, 1], [1, 1, 1], 2))
    np.testing.assert_array_equal(matrix, [[0, 1], [0, 2]])
    both = metrics.set_intersection(tf.constant([[1, 2]]), tf.constant([[2, 3]]))
    assert value(both).values.tolist() == [2]
    assert value(metrics.set_size(both)).tolist() == [1]


def log_softmax(x):
    return x - np.log(np.exp(x).sum(1, keepdims=True))


LOSSES = {
    "softmax_cross_entropy": (
        lambda: losses.softmax_cross_entropy(tf.constant(TABLE), tf.constant(ONE_HOT), WEIGHTS),
        -((log_softmax(TABLE) * ONE_HOT).sum(1) * WEIGHTS).sum() / 20,
    ),
    "smoothed": (
        lambda: slim.losses.softmax_cross_entropy(
            tf.constant(TABLE), tf.constant(ONE_HOT), label_smoothing=0.2
        ),
        -(log_softmax(TABLE) * (ONE_HOT * 0.8 + 0.05)).sum(1).mean(),
    ),
    "sparse_softmax_cross_entropy": (
        lambda: losses.sparse_softmax_cross_entropy(TABLE, CLASSES),
        -log_softmax(TABLE)[np.arange(20), CLASSES].mean(),
    ),
    "sigmoid_cross_entropy": (
        lambda: losses.sigmoid_cross_entropy(tf.constant(TABLE), tf.constant(ONE_HOT)),
        np.mean(np.log1p(np.exp(TABLE)) - TABLE * ONE_HOT),
    ),
    "mean_squared_error": (
        lambda: losses.mean_squared_error(tf.constant(SCORES), tf.constant(TARGETS), 2.0),
        2 * ((SCORES - TARGETS) ** 2).mean(),
    ),
    "absolute_difference": (
        lambda: losses.absolute_difference(tf.constant(SCORES), tf.constant(TARGETS)),
        abs(SCORES - TARGETS).mean(),
    ),
    "log_loss": (
        lambda: losses.log_loss(tf.constant(SCORES), tf.constant(LABELS)),
        -np.mean(LABELS * np.log(SCORES + 1e-7) + (1 - LABELS) * np.log(1 - SCORES + 1e-7)),
    ),
    "hinge_loss": (
        lambda: losses.hinge_loss(tf.constant(SCORES), tf.constant(LABELS)),
        np.maximum(1 - (2 * LABELS - 1) * SCORES, 0),
    ),
    "mean_pairwise_squared_error": (  # A sum over the batch, unlike that of tf.losses.
        lambda: losses.mean_pairwise_squared_error(tf.constant(TABLE), tf.constant(ONE_HOT)),
        (2 * (TABLE - ONE_HOT).var(1)).sum(),
    ),
    "cosine_distance": (
        lambda: losses.cosine_distance(tf.constant(TABLE), tf.constant(ONE_HOT), 1),
        (1 - (TABLE * ONE_HOT).sum(1)).mean(),
    ),
}


@pytest.mark.parametrize("name", LOSSES)
def test_loss_agrees_with_numpy_and_is_collected(name):
    make, expected = LOSSES[name]
    loss = make()
    np.testing.assert_allclose(value(loss), expected, rtol=1e-4)
    if name != "hinge_loss":
        assert losses.get_losses() == v1.get_collection(v1.GraphKeys.LOSSES) == [loss]
        assert value(losses.get_total_loss()) == pytest.approx(value(loss))


def test_regularization_and_own_losses_count():
    losses.add_loss(tf.constant(3.0))
    slim.fully_connected(TABLE, 2, weights_regularizer=lambda weights: tf.constant(4.0))
    assert len(losses.get_regularization_losses()) == 1
    assert value(losses.get_total_loss()) == 7
    assert value(losses.get_total_loss(add_regularization_losses=False)) == 3
    assert value(losses.compute_weighted_loss(tf.constant([1.0, 2.0]), 2.0)) == 3


def test_metric_learning():
    learning = losses.metric_learning
    anchors, positives = TABLE[:5], TABLE[5:10]
    distances = np.linalg.norm(anchors - positives, axis=1)
    same = np.array([1, 0, 1, 0, 1], "f4")
    contrastive = learning.contrastive_loss(same, anchors, positives, margin=1.0)
    wanted = np.mean(same * distances**2 + (1 - same) * np.maximum(1 - distances, 0) ** 2)
    assert value(contrastive) == pytest.approx(wanted, rel=1e-4)
    pairs = learning.npairs_loss(tf.range(5), anchors, positives, reg_lambda=0.0)
    assert value(pairs) == pytest.approx(
        -np.diag(log_softmax(anchors @ positives.T)).mean(), rel=1e-4
    )
    triplet = learning.triplet_semihard_loss(tf.constant(CLASSES), tf.nn.l2_normalize(TABLE, 1))
    assert value(triplet) == pytest.approx(semihard(TABLE, CLASSES), rel=1e-3)


def semihard(rows, classes, margin=1.0):
    rows = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    distances = ((rows[:, None] - rows) ** 2).sum(2)
    losses_of_pairs = []
    for anchor in range(len(rows)):
        others = distances[anchor, classes != classes[anchor]]
        for positive in np.flatnonzero(classes == classes[anchor]):
            if positive != anchor:
                farther = others[others > distances[anchor, positive]]
                negative = farther.min() if farther.size else others.max()
                losses_of_pairs.append(max(margin + distances[anchor, positive] - negative, 0))
    return np.mean(losses_of_pairs)
