"""The weighted cross entropy of sequences against NumPy."""

import numpy as np
import pytest
import tensorflow as tf

from replicate.compat.contrib.seq2seq import sequence_loss

DRAWS = np.random.default_rng(0)
LOGITS = DRAWS.normal(size=[2, 3, 4]).astype("f4")
TARGETS = DRAWS.integers(0, 4, size=[2, 3])
WEIGHTS = np.array([[1, 0.5, 0], [2, 1, 1]], "f4")
LOSSES = WEIGHTS * (
    np.log(np.exp(LOGITS).sum(2)) - np.take_along_axis(LOGITS, TARGETS[..., None], 2)[..., 0]
)
COUNTS = (WEIGHTS != 0).astype("f4")


def test_averages_sums_and_own_functions(graph, evaluate):
    def own(labels, logits):
        return tf.cast(labels, tf.float32) + logits[:, 0]

    cases = {
        (): LOSSES.sum() / WEIGHTS.sum(),
        (False, False): LOSSES,
        (True, False): LOSSES.sum(1) / WEIGHTS.sum(1),
        (False, True): LOSSES.sum(0) / WEIGHTS.sum(0),
        (False, False, True, True): LOSSES.sum() / COUNTS.sum(),
        (False, False, True, False): LOSSES.sum(1) / COUNTS.sum(1),
        (False, False, False, True): LOSSES.sum(0) / COUNTS.sum(0),
        (True, False, False, True): LOSSES.sum(1) / WEIGHTS.sum(1),
    }
    made = [sequence_loss(LOGITS, TARGETS, WEIGHTS, *settings) for settings in cases]
    made.append(sequence_loss(LOGITS, TARGETS, WEIGHTS, softmax_loss_function=own))
    of_own = ((TARGETS + LOGITS[..., 0]) * WEIGHTS).sum() / WEIGHTS.sum()
    for found, expected in zip(evaluate(made), [*cases.values(), of_own], strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-5)


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
