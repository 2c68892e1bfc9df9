"""The weighted cross entropy of sequences against NumPy."""

import numpy as np
import pytest
import tensorflow as tf

pytest.importorskip("tf_keras")

from replicate.compat.contrib.seq2seq import sequence_loss

v1 = tf.compat.v1
DRAWS = np.random.default_rng(0)
LOGITS = DRAWS.normal(size=[2, 3, 4]).astype("f4")
TARGETS = DRAWS.integers(0, 4, size=[2, 3])
WEIGHTS = np.array([[1, 0.5, 0], [2, 1, 1]], "f4")
LOSSES = WEIGHTS * (
    np.log(np.exp(LOGITS).sum(2)) - np.take_along_axis(LOGITS, TARGETS[..., None], 2)[..., 0]
)
COUNTS = (WEIGHTS != 0).astype("f4")


def loss(*settings, **more):
    with tf.Graph().as_default(), v1.Session() as session:
        return session.run(sequence_loss(LOGITS, TARGETS, WEIGHTS, *settings, **more))


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ((), LOSSES.sum() / WEIGHTS.sum()),
        ((False, False), LOSSES),
        ((True, False), LOSSES.sum(1) / WEIGHTS.sum(1)),
        ((False, True), LOSSES.sum(0) / WEIGHTS.sum(0)),
        ((False, False, True, True), LOSSES.sum() / COUNTS.sum()),
        ((False, False, True, False), LOSSES.sum(1) / COUNTS.sum(1)),
        ((False, False, False, True), LOSSES.sum(0) / COUNTS.sum(0)),
        ((True, False, False, True), LOSSES.sum(1) / WEIGHTS.sum(1)),
    ],
)
def test_averages_and_sums(settings, expected):
    np.testing.assert_allclose(loss(*settings), expected, rtol=1e-5)


def test_own_function_gets_labels_and_logits():
    def function(labels, logits):
        return tf.cast(labels, tf.float32) + logits[:, 0]

    expected = ((TARGETS + LOGITS[..., 0]) * WEIGHTS).sum() / WEIGHTS.sum()
    np.testing.assert_allclose(loss(softmax_loss_function=function), expected, rtol=1e-5)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((LOGITS[0], TARGETS, WEIGHTS), "logits of 3 dimensions"),
        ((LOGITS, TARGETS[0], WEIGHTS), "targets of 2 dimensions"),
        ((LOGITS, TARGETS, WEIGHTS[0]), "weights of 2 dimensions"),
        ((LOGITS, TARGETS, WEIGHTS, True, False, True), "time steps"),
        ((LOGITS, TARGETS, WEIGHTS, False, True, False, True), "the batch"),
    ],
)
def test_messages(arguments, message):
    with tf.Graph().as_default(), pytest.raises(ValueError, match=message):
        sequence_loss(*arguments)
