"""Helpers and the loop of dynamic_decode."""

import numpy as np
import pytest
import tensorflow as tf

pytest.importorskip("tf_keras")

from replicate.compat.contrib import rnn, seq2seq
from replicate.compat.contrib.legacy_keras import layers, rnn_cell

v1 = tf.compat.v1
DRAWS = np.random.default_rng(0)
CLASSES, UNITS, END = 5, 4, 0
TABLE = DRAWS.normal(size=[CLASSES, 3]).astype("f4")
W = DRAWS.normal(size=[3, UNITS]).astype("f4")
U = DRAWS.normal(size=[UNITS, UNITS]).astype("f4")
OUT = 2 * DRAWS.normal(size=[UNITS, CLASSES]).astype("f4")
START = DRAWS.normal(size=[2, UNITS]).astype("f4")


class Cell(rnn_cell.RNNCell):
    """A plain cell of given weights, in the style of its time."""

    @property
    def state_size(self):
        return UNITS

    @property
    def output_size(self):
        return UNITS

    def call(self, inputs, state):
        state = tf.tanh(tf.matmul(inputs, W) + tf.matmul(state, U))
        return state, state


def output_layer():
    start = v1.constant_initializer(OUT)
    return layers.Dense(CLASSES, use_bias=False, kernel_initializer=start, name="out")


def step(x, state):
    state = np.tanh(x @ W + state @ U)
    return state @ OUT, state


def decode(helper, **settings):
    """Runs a BasicDecoder with a helper that a function makes."""
    with tf.Graph().as_default(), v1.Session() as session:
        decoder = seq2seq.BasicDecoder(
            Cell(), helper(), tf.constant(START), output_layer=output_layer()
        )
        values = seq2seq.dynamic_decode(decoder, **settings)
        names = [each.op.name for each in v1.global_variables()]
        assert names == ["decoder/out/kernel"]
        session.run(v1.global_variables_initializer())
        return session.run(values)


X = DRAWS.normal(size=[2, 4, 3]).astype("f4")
LENGTHS = np.array([4, 2], "i4")


@pytest.mark.parametrize(("imputes", "time_major"), [(True, False), (False, True)])
def test_training_helper_reads_the_batch(imputes, time_major):
    x = X.swapaxes(0, 1) if time_major else X

    def helper():
        return seq2seq.TrainingHelper(x, LENGTHS, time_major=time_major)

    outputs, final, lengths = decode(
        helper, impute_finished=imputes, output_time_major=time_major, swap_memory=True
    )
    assert lengths.tolist() == [4, 2]
    logits = outputs.rnn_output.swapaxes(0, 1) if time_major else outputs.rnn_output
    ids = outputs.sample_id.T if time_major else outputs.sample_id
    for row in range(2):
        state = START[row]
        for time in range(LENGTHS[row]):
            expected, state = step(X[row, time], state)
            np.testing.assert_allclose(logits[row, time], expected, atol=1e-5)
            assert ids[row, time] == np.argmax(expected)
        if imputes:
            np.testing.assert_allclose(final[row], state, atol=1e-5)
            assert not logits[row, LENGTHS[row] :].any()


def greedy(row, limit):
    ids, state, x = [], START[row], TABLE[1]
    while len(ids) < limit:
        logits, state = step(x, state)
        ids.append(int(np.argmax(logits)))
        if ids[-1] == END:
            break
        x = TABLE[ids[-1]]
    return ids


def best_ids(outputs):
    return tf.argmax(outputs, -1, tf.int32)


HELPERS = {
    "table": lambda: seq2seq.GreedyEmbeddingHelper(tf.constant(TABLE), tf.fill([2], 1), END),
    "function": lambda: seq2seq.GreedyEmbeddingHelper(
        lambda ids: tf.gather(TABLE, ids), tf.fill([2], 1), END
    ),
    "cold samples": lambda: seq2seq.SampleEmbeddingHelper(
        TABLE, [1, 1], END, softmax_temperature=1e-4, seed=1
    ),
    "custom": lambda: seq2seq.CustomHelper(
        initialize_fn=lambda: (tf.fill([2], False), tf.gather(TABLE, [1, 1])),
        sample_fn=lambda time, outputs, state: best_ids(outputs),
        next_inputs_fn=lambda time, outputs, state, sample_ids: (
            tf.equal(sample_ids, END),
            tf.gather(TABLE, sample_ids),
            state,
        ),
    ),
    "inference": lambda: seq2seq.InferenceHelper(
        sample_fn=best_ids,
        sample_shape=[],
        sample_dtype=tf.int32,
        start_inputs=TABLE[[1, 1]],
        end_fn=lambda ids: tf.equal(ids, END),
        next_inputs_fn=lambda ids: tf.gather(TABLE, ids),
    ),
}


@pytest.mark.parametrize(
    ("kind", "limit"),
    [("table", 0), ("function", 3), ("cold samples", 3), ("custom", 6), ("inference", 12)],
)
def test_helpers_go_on_with_the_best_id(kind, limit):
    outputs, _, lengths = decode(HELPERS[kind], maximum_iterations=limit)
    for row in range(2):
        expected = greedy(row, limit)
        assert lengths[row] == len(expected)
        assert outputs.sample_id[row, : len(expected)].tolist() == expected


@pytest.mark.parametrize("probability", [0.0, 1.0])
def test_scheduled_embeddings(probability):
    def helper():
        return seq2seq.ScheduledEmbeddingTrainingHelper(
            X, LENGTHS, tf.constant(TABLE), tf.constant(probability), seed=1
        )

    outputs, _, _ = decode(helper)
    state, x = START[0], X[0, 0]
    for time in range(4):
        logits, state = step(x, state)
        np.testing.assert_allclose(outputs.rnn_output[0, time], logits, atol=1e-4)
        drawn = outputs.sample_id[0, time]
        assert (drawn == -1) == (probability == 0)
        if time < 3:
            x = X[0, time + 1] if drawn == -1 else TABLE[drawn]


@pytest.mark.parametrize("probability", [0.0, 1.0])
def test_scheduled_outputs(probability):
    def helper():
        return seq2seq.ScheduledOutputTrainingHelper(
            X[..., :2],
            LENGTHS,
            tf.constant(probability),
            next_inputs_fn=lambda outputs: outputs[:, :2],
            auxiliary_inputs=X[..., 2:],
        )

    outputs, _, _ = decode(helper)
    state, x = START[0], X[0, 0]
    for time in range(4):
        logits, state = step(x, state)
        np.testing.assert_allclose(outputs.rnn_output[0, time], logits, atol=1e-4)
        if time < 3:
            own = logits[:2] if probability else X[0, time + 1, :2]
            x = np.concatenate([own, X[0, time + 1, 2:]])


def test_gradients_and_reuse():
    with tf.Graph().as_default(), v1.Session() as session:
        for reuse in (False, True):
            with v1.variable_scope("model", reuse=reuse):
                helper = seq2seq.TrainingHelper(X, LENGTHS)
                cell = rnn.GRUBlockCellV2(UNITS)
                decoder = seq2seq.BasicDecoder(cell, helper, cell.zero_state(2, tf.float32))
                outputs, _, _ = seq2seq.dynamic_decode(decoder)
        gradients = tf.gradients(outputs.rnn_output, v1.trainable_variables())
        session.run(v1.global_variables_initializer())
        assert all(np.any(each != 0) for each in session.run(gradients))
        names = [each.op.name for each in v1.trainable_variables()]
    assert names[0] == "model/decoder/gru_cell/gates/kernel"
    assert len(names) == 4


decoder, greedy_helper = seq2seq.BasicDecoder, seq2seq.GreedyEmbeddingHelper


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: seq2seq.dynamic_decode(3), TypeError, "takes a Decoder, got int"),
        (lambda: decoder(3, None, None), TypeError, "takes a cell, got 3"),
        (lambda: decoder(Cell(), 3, None), TypeError, "takes a Helper, got int"),
        (
            lambda: decoder(Cell(), greedy_helper(TABLE, [1], 2), START, output_layer=3),
            TypeError,
            "layer of tf.layers as output_layer, got 3",
        ),
        (lambda: seq2seq.TrainingHelper(X, 3), ValueError, "sequence_length must be a vector"),
        (lambda: greedy_helper(TABLE, 1, 2), ValueError, "start_tokens must be a vector"),
        (lambda: greedy_helper(TABLE, [1], [2]), ValueError, "end_token must be a scalar"),
        (lambda: greedy_helper(TABLE, [1], 2).sample(0, (1, 2), None), TypeError, "are one tensor"),
        (lambda: seq2seq.CustomHelper(None, None, None).batch_size, ValueError, "after initialize"),
    ],
)
def test_messages(call, error, message):
    with tf.Graph().as_default(), pytest.raises(error, match=message):
        call()
