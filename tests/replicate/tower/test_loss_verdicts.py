"""Verdicts on losses, from the graph alone: batches of a fixed size and of any size."""

import pytest
import tensorflow as tf

from replicate.tower.loss_verdicts import LossVerdicts

v1 = tf.compat.v1
losses = v1.losses
ROWS = 20


def verdict(make_loss, rows):
    """Returns True if the graph shows a sum over rows, False for a mean, None if neither."""
    with tf.Graph().as_default():
        x, y = v1.placeholder(tf.float32, [rows, 3]), v1.placeholder(tf.float32, [rows])
        verdicts = LossVerdicts(averages=True, towers=2)
        verdicts.begin_tower((x, y))
        outputs = x @ v1.get_variable("weights", [3, 10])
        verdicts.computed(make_loss(outputs, tf.one_hot(tf.cast(y, tf.int32), 10), y))
        return verdicts.sums_loss


MEANS = {
    "squares": lambda x, labels, y: losses.mean_squared_error(labels, x),
    "softmax": lambda x, labels, y: losses.softmax_cross_entropy(labels, x),
    "softmax of nn": lambda x, labels, y: tf.reduce_mean(
        tf.nn.softmax_cross_entropy_with_logits(labels, x)
    ),
    "sparse": lambda x, labels, y: losses.sparse_softmax_cross_entropy(tf.cast(y, tf.int64), x),
    "sigmoid": lambda x, labels, y: losses.sigmoid_cross_entropy(labels, x),
    "weighted": lambda x, labels, y: losses.mean_squared_error(labels, x, weights=y[:, None]),
    "mean": lambda x, labels, y: losses.huber_loss(labels, x, reduction=losses.Reduction.MEAN),
    "ones": lambda x, labels, y: tf.reduce_sum(tf.square(y)) / tf.reduce_sum(tf.ones_like(y)),
}
SUMS = {
    "squares": lambda x, labels, y: losses.mean_squared_error(
        labels, x, reduction=losses.Reduction.SUM
    ),
    "softmax": lambda x, labels, y: tf.reduce_sum(
        tf.nn.softmax_cross_entropy_with_logits(labels, x)
    ),
    "half": lambda x, labels, y: tf.nn.l2_loss(x - labels),
    "over 7": lambda x, labels, y: tf.reduce_sum(x) / 7,
}


@pytest.mark.parametrize("rows", [ROWS, None])
@pytest.mark.parametrize("table", [MEANS, SUMS])
def test_sums_and_means_are_told_whatever_the_batch(table, rows, caplog):
    found = {name: verdict(make, rows) for name, make in table.items()}
    assert found == dict.fromkeys(table, table is SUMS)
    assert "says that it is a mean" in caplog.text or table is MEANS


@pytest.mark.parametrize("count", [ROWS, 10 * ROWS, 1 / ROWS])
def test_number_of_rows_in_the_program_is_taken_for_no_verdict(count):
    def loss(outputs, labels, y):
        del labels, y
        return tf.reduce_sum(outputs) / count if count > 1 else tf.reduce_sum(outputs) * count

    assert verdict(loss, ROWS) is False  # The setting decides.
    assert verdict(loss, 2 * ROWS + 1) is True
