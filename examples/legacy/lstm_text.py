"""An LSTM that tells from a few words which data set of scikit-learn they describe.

    python -m examples.legacy.lstm_text --towers=2 --export_dir=runs/texts

In 2018 the first lines read `import tensorflow as tf` and `from tensorflow import estimator`,
and the cell and the layer were those of `tf.nn.rnn_cell` and `tf.layers`.
"""

from examples.legacy import program

if __name__ == "__main__":
    program.parse_flags()  # before the import of TensorFlow, which takes seconds

import re

import numpy as np
import tensorflow.compat.v1 as tf
from sklearn import datasets

import replicate as estimator
from replicate.compat import cells, layers

SOURCES = (datasets.load_breast_cancer, datasets.load_diabetes, datasets.load_digits)
LENGTH = 12
BUCKETS = 500
UNITS = 16


def windows(text):
    """Cuts a text into runs of words; the last one is filled up with empty words."""
    words = re.findall("[a-z]+", text.lower())
    rows = [words[start : start + LENGTH] for start in range(0, len(words), LENGTH // 2)]
    return [row + [""] * (LENGTH - len(row)) for row in rows]


def examples():
    """All windows of all descriptions, shuffled, with the number of the data set of each."""
    pairs = [
        (window, number) for number, load in enumerate(SOURCES) for window in windows(load().DESCR)
    ]
    order = np.random.RandomState(0).permutation(len(pairs))
    texts, labels = zip(*(pairs[place] for place in order), strict=True)
    return np.array(texts, object), np.array(labels, np.int32)


TEXTS, LABELS = examples()
TEST = slice(0, len(TEXTS) // 4)
TRAINING = slice(len(TEXTS) // 4, None)


def model_fn(features, labels, mode):
    """Hashed words, their embeddings, an LSTM as long as the text, and a dense layer."""
    words = features["words"]
    lengths = tf.reduce_sum(tf.cast(tf.not_equal(words, ""), tf.int32), axis=1)
    table = tf.get_variable("embeddings", [BUCKETS, UNITS])
    embedded = tf.nn.embedding_lookup(table, tf.string_to_hash_bucket_fast(words, BUCKETS))
    cell = cells.LSTMCell(UNITS)
    _, state = tf.nn.dynamic_rnn(cell, embedded, sequence_length=lengths, dtype=tf.float32)
    logits = layers.dense(state.h, len(SOURCES))

    predictions = {"source": tf.argmax(logits, 1), "probabilities": tf.nn.softmax(logits)}
    if mode == estimator.ModeKeys.PREDICT:
        return estimator.EstimatorSpec(mode, predictions=predictions)

    loss = tf.losses.sparse_softmax_cross_entropy(labels, logits)
    metrics = {"accuracy": tf.metrics.accuracy(labels, predictions["source"])}
    if mode == estimator.ModeKeys.EVAL:
        return estimator.EstimatorSpec(mode, loss=loss, eval_metric_ops=metrics)

    optimizer = estimator.TowerOptimizer(tf.train.AdamOptimizer(0.01))
    train_op = optimizer.minimize(loss, tf.train.get_global_step())
    return estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)


PROGRAM = program.Program(
    model_fn,
    estimator.inputs.numpy_input_fn(
        {"words": TEXTS[TRAINING]}, LABELS[TRAINING], 64, num_epochs=None, shuffle=True
    ),
    estimator.inputs.numpy_input_fn({"words": TEXTS[TEST]}, LABELS[TEST], shuffle=False),
    estimator.export.build_raw_serving_input_receiver_fn(
        {"words": tf.TensorSpec([None, LENGTH], tf.string)}
    ),
)

if __name__ == "__main__":
    program.run(PROGRAM)
