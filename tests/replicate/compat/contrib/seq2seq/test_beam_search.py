"""Beam search against the search over all sequences, and against a beam search in Python."""

import itertools

import numpy as np
import pytest
import tensorflow as tf

pytest.importorskip("tf_keras")

from replicate.compat.contrib import rnn, seq2seq
from replicate.compat.contrib.legacy_keras import layers, rnn_cell

v1 = tf.compat.v1
DRAWS = np.random.default_rng(3)
CLASSES, UNITS, END, LIMIT = 4, 3, 0, 4
TABLE = DRAWS.normal(size=[CLASSES, 3]).astype("f4")
W = DRAWS.normal(size=[3, UNITS]).astype("f4")
U = DRAWS.normal(size=[UNITS, UNITS]).astype("f4")
OUT = 2 * DRAWS.normal(size=[UNITS, CLASSES]).astype("f4")
START = DRAWS.normal(size=[2, UNITS]).astype("f4")


class Cell(rnn_cell.RNNCell):
    """A plain cell of given weights, with a state in two parts."""

    @property
    def state_size(self):
        return (UNITS, 1)

    @property
    def output_size(self):
        return UNITS

    def call(self, inputs, state):
        hidden = tf.tanh(tf.matmul(inputs, W) + tf.matmul(state[0], U))
        return hidden, (hidden, state[1] + 1)


def search(width, penalty=0.0, limit=LIMIT):
    with tf.Graph().as_default(), v1.Session() as session:
        start = seq2seq.tile_batch((tf.constant(START), tf.zeros([2, 1])), multiplier=width)
        kernel = v1.constant_initializer(OUT)
        decoder = seq2seq.BeamSearchDecoder(
            cell=Cell(),
            embedding=tf.constant(TABLE),
            start_tokens=tf.fill([2], 1),
            end_token=END,
            initial_state=start,
            beam_width=width,
            output_layer=layers.Dense(CLASSES, use_bias=False, kernel_initializer=kernel),
            length_penalty_weight=penalty,
        )
        values = seq2seq.dynamic_decode(decoder, maximum_iterations=limit)
        session.run(v1.global_variables_initializer())
        return session.run(values)


def log_probability(row, ids):
    state, x, total = START[row], TABLE[1], 0
    for each in ids:
        state = np.tanh(x @ W + state @ U)
        logits = state @ OUT
        total += logits[each] - np.log(np.exp(logits).sum())
        x = TABLE[each]
    return total


def all_sequences():
    """All sequences that end, and those that are cut off."""
    words = [each for each in range(CLASSES) if each != END]
    for length in range(LIMIT):
        for each in itertools.product(words, repeat=length):
            yield (*each, END)
    yield from itertools.product(words, repeat=LIMIT)


def score(row, ids, penalty, step=LIMIT):
    """Score in a step: the end token counts as a part of a sequence one step later."""
    length = len(ids) - (ids[-1] == END and len(ids) == step)
    return log_probability(row, ids) / ((5 + length) / 6) ** penalty


def test_wide_beam_finds_what_is_best_of_all_sequences():
    penalty = 1.0
    outputs, state, _ = search(60, penalty)
    for row in range(2):
        ranked = sorted(all_sequences(), key=lambda ids, row=row: -score(row, ids, penalty))
        for beam in range(5):
            ids = ranked[beam]
            found = outputs.predicted_ids[row, :, beam].tolist()
            assert found == [*ids, *[END] * (LIMIT - len(ids))]
            assert state.lengths[row, beam] == len(ids)
            np.testing.assert_allclose(
                state.log_probs[row, beam], log_probability(row, ids), rtol=1e-4
            )


def reference(row, width, penalty, limit):
    """A beam search over lists of ids."""
    beams = [()]
    for step in range(1, limit + 1):
        longer = []
        for ids in beams:
            ended = END in ids
            longer += [(*ids, END)] if ended else [(*ids, each) for each in range(CLASSES)]

        def value(ids, step=step):
            cut = ids[: ids.index(END) + 1] if END in ids else ids
            return score(row, cut, penalty, step)

        beams = sorted(longer, key=lambda ids: -value(ids))[:width]
        if all(END in ids for ids in beams):
            break
    return beams


@pytest.mark.parametrize(("width", "penalty"), [(1, 0.0), (3, 0.5)])
def test_narrow_beam_keeps_the_best_of_each_step(width, penalty):
    outputs, _, _ = search(width, penalty, limit=6)
    for row in range(2):
        for beam, ids in enumerate(reference(row, width, penalty, 6)):
            found = outputs.predicted_ids[row, :, beam].tolist()
            assert found[: len(ids)] == list(ids)
            assert set(found[len(ids) :]) <= {END}


def attention_search(width, coverage):
    memory = np.random.RandomState(5).normal(size=[2, 3, UNITS]).astype("f4")
    # The coverage penalty is the logarithm of a share, so infinite for memory that is not there.
    sizes = np.array([3, 3 if coverage else 2])
    with tf.Graph().as_default(), v1.Session() as session:
        v1.set_random_seed(1)
        tiled = seq2seq.tile_batch(tf.constant(memory), width)
        lengths = seq2seq.tile_batch(sizes, width)
        cell = seq2seq.AttentionWrapper(
            rnn_cell.MultiRNNCell([rnn.LSTMBlockCell(UNITS)] * 1),
            seq2seq.LuongAttention(UNITS, tiled, lengths),
            attention_layer_size=UNITS,
            alignment_history=True,
        )
        decoder = seq2seq.BeamSearchDecoder(
            cell,
            lambda ids: tf.gather(TABLE, ids),
            v1.placeholder_with_default([1, 1], [None]),
            END,
            cell.zero_state(2 * width, tf.float32),
            width,
            layers.Dense(CLASSES),
            coverage_penalty_weight=coverage,
        )
        outputs, state, _ = seq2seq.dynamic_decode(decoder, maximum_iterations=4)
        session.run(v1.global_variables_initializer(), {})
        return session.run(
            (outputs, state.lengths, state.cell_state.alignment_history, state.log_probs)
        )


@pytest.mark.parametrize("coverage", [0.0, 0.3])
def test_attention_history_has_the_order_of_the_beams(coverage):
    outputs, lengths, history, log_probs = attention_search(3, coverage)
    steps = outputs.beam_search_decoder_output
    assert outputs.predicted_ids.shape == (2, *steps.scores.shape[:0], history.shape[0], 3)
    assert history.shape[1:] == (6, 3)
    np.testing.assert_allclose(history.sum(2), 1, atol=1e-5)
    assert np.all(np.diff(steps.scores[:, -1]) <= 0)
    if not coverage:
        assert np.all(history.reshape(-1, 2, 3, 3)[:, 1, :, 2] == 0)  # Its memory is shorter.
        np.testing.assert_allclose(steps.scores[:, -1], log_probs, atol=1e-5)
    assert np.all(lengths <= 4)


def test_gather_tree_follows_parents_and_keeps_what_has_ended():
    ids = np.array([[[1, 2, 3]], [[4, 5, 6]], [[7, 8, 9]], [[10, 10, 10]]], "i4")
    parents = np.array([[[0, 0, 0]], [[0, 1, 1]], [[2, 1, 2]], [[0, 0, 0]]], "i4")
    values = np.arange(12, dtype="f4").reshape(4, 3, 1)
    ended = np.array([[[5, 1]], [[2, 5]], [[3, 3]]], "i4")
    in_place = np.zeros([3, 1, 2], "i4") + np.array([0, 1], "i4")
    with tf.Graph().as_default(), v1.Session() as session:
        found = session.run(seq2seq.gather_tree(ids, parents, [3], 10))
        stays = session.run(seq2seq.gather_tree(ended, in_place, [3], 5))
        ordered = session.run(
            seq2seq.gather_tree_from_array(values, parents, tf.constant([[3, 2, 3]]))
        )
    assert found[:, 0].T.tolist() == [[2, 6, 7, 10], [2, 5, 8, 10], [2, 6, 9, 10]]
    assert stays[:, 0].T.tolist() == [[5, 5, 5], [1, 5, 5]]
    assert ordered[:3, :, 0].T.tolist() == [[1, 5, 6], [1, 4, 7], [1, 5, 8]]


def test_tile_batch_repeats_in_place():
    with tf.Graph().as_default(), v1.Session() as session:
        one, other = seq2seq.tile_batch((tf.constant([1, 2]), np.array([[3], [4]])), 2)
        unknown = seq2seq.tile_batch(v1.placeholder_with_default([[1], [2]], [None, 1]), 2)
        assert (one.shape, unknown.shape[1:]) == ([4], [1])
        assert session.run(one).tolist() == [1, 1, 2, 2]
        assert session.run(other).tolist() == [[3], [3], [4], [4]]


def decoder(**settings):
    values = {"embedding": TABLE, "start_tokens": [1], "end_token": 0, "initial_state": START}
    return seq2seq.BeamSearchDecoder(**{"cell": Cell(), **values, "beam_width": 2, **settings})


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: decoder(cell=3), TypeError, "takes a cell, got 3"),
        (lambda: decoder(output_layer=3), TypeError, "as output_layer, got 3"),
        (lambda: decoder(start_tokens=1), ValueError, "start_tokens must be a vector"),
        (lambda: decoder(end_token=[1]), ValueError, "end_token must be a scalar"),
        (lambda: decoder(coverage_penalty_weight=1.0).initialize(), ValueError, "AttentionWrapper"),
        (lambda: seq2seq.tile_batch(tf.constant(1), 2), ValueError, "takes tensors"),
    ],
)
def test_messages(call, error, message):
    with tf.Graph().as_default(), pytest.raises(error, match=message):
        call()
