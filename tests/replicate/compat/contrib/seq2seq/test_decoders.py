"""Helpers, beam search and the loop of dynamic_decode, against loops in Python.

A beam is compared with the search over all sequences, and with a beam search over lists.
"""

import itertools

import numpy as np
import pytest
import tensorflow as tf

from replicate.compat import cells as rnn_cell
from replicate.compat.contrib import rnn, seq2seq
from replicate.compat.layers import core as layers

v1 = tf.compat.v1
DRAWS = np.random.default_rng(3)
CLASSES, UNITS, END, LIMIT = 4, 3, 0, 4
TABLE = DRAWS.normal(size=[CLASSES, 3]).astype("f4")
W = DRAWS.normal(size=[3, UNITS]).astype("f4")
U = DRAWS.normal(size=[UNITS, UNITS]).astype("f4")
OUT = 2 * DRAWS.normal(size=[UNITS, CLASSES]).astype("f4")
START = DRAWS.normal(size=[2, UNITS]).astype("f4")
X = DRAWS.normal(size=[2, 4, 3]).astype("f4")
LENGTHS = np.array([4, 2], "i4")


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


def step(x, state):
    state = np.tanh(x @ W + state @ U)
    return state @ OUT, state


@pytest.fixture
def decode(plain_session):
    """Runs the decoder that a function makes of a cell, its first state and its output layer."""

    def run(make, width=1, **settings):
        with tf.Graph().as_default(), plain_session() as session:
            start = seq2seq.tile_batch((tf.constant(START), tf.zeros([2, 1])), multiplier=width)
            kernel = v1.constant_initializer(OUT)
            dense = layers.Dense(CLASSES, use_bias=False, kernel_initializer=kernel, name="out")
            values = seq2seq.dynamic_decode(make(Cell(), start, dense), **settings)
            assert [each.op.name for each in v1.global_variables()] == ["decoder/out/kernel"]
            session.run(v1.global_variables_initializer())
            return session.run(values)

    return run


@pytest.fixture
def decode_with(decode):
    """Runs a BasicDecoder with a helper that a function makes."""

    def run(helper, **settings):
        return decode(lambda cell, *rest: seq2seq.BasicDecoder(cell, helper(), *rest), **settings)

    return run


@pytest.fixture
def search(decode):
    """Runs a beam search."""

    def run(width, penalty, limit):
        def make(cell, start, output_layer):
            return seq2seq.BeamSearchDecoder(
                cell=cell,
                embedding=tf.constant(TABLE),
                start_tokens=tf.fill([2], 1),
                end_token=END,
                initial_state=start,
                beam_width=width,
                output_layer=output_layer,
                length_penalty_weight=penalty,
            )

        return decode(make, width, maximum_iterations=limit)

    return run


@pytest.mark.parametrize(("imputes", "time_major"), [(True, False), (False, True)])
def test_training_helper_reads_the_batch(imputes, time_major, decode_with):
    x = X.swapaxes(0, 1) if time_major else X
    outputs, final, lengths = decode_with(
        lambda: seq2seq.TrainingHelper(x, LENGTHS, time_major=time_major),
        impute_finished=imputes,
        output_time_major=time_major,
        swap_memory=True,
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
            np.testing.assert_allclose(final[0][row], state, atol=1e-5)
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


def embed(ids):
    return tf.gather(TABLE, ids)


def ends(ids):
    return tf.equal(ids, END)


HELPERS = {
    "table": lambda: seq2seq.GreedyEmbeddingHelper(tf.constant(TABLE), tf.fill([2], 1), END),
    "function": lambda: seq2seq.GreedyEmbeddingHelper(embed, tf.fill([2], 1), END),
    "cold samples": lambda: seq2seq.SampleEmbeddingHelper(
        TABLE, [1, 1], END, softmax_temperature=1e-4, seed=1
    ),
    "custom": lambda: seq2seq.CustomHelper(
        initialize_fn=lambda: (tf.fill([2], False), embed([1, 1])),
        sample_fn=lambda time, outputs, state: tf.argmax(outputs, -1, tf.int32),
        next_inputs_fn=lambda time, outputs, state, sample_ids: (
            ends(sample_ids),
            embed(sample_ids),
            state,
        ),
    ),
    "inference": lambda: seq2seq.InferenceHelper(
        sample_fn=lambda outputs: tf.argmax(outputs, -1, tf.int32),
        sample_shape=[],
        sample_dtype=tf.int32,
        start_inputs=TABLE[[1, 1]],
        end_fn=ends,
        next_inputs_fn=embed,
    ),
}


@pytest.mark.parametrize(
    ("kind", "limit"),
    [("table", 0), ("function", 3), ("cold samples", 3), ("custom", 6), ("inference", 12)],
)
def test_helpers_go_on_with_the_best_id(kind, limit, decode_with):
    outputs, _, lengths = decode_with(HELPERS[kind], maximum_iterations=limit)
    for row in range(2):
        expected = greedy(row, limit)
        assert lengths[row] == len(expected)
        assert outputs.sample_id[row, : len(expected)].tolist() == expected


@pytest.mark.parametrize("probability", [0.0, 1.0])
def test_scheduled_helpers_read_samples_or_the_batch(probability, decode_with):
    def of_ids():
        return seq2seq.ScheduledEmbeddingTrainingHelper(
            X, LENGTHS, tf.constant(TABLE), tf.constant(probability), seed=1
        )

    def of_outputs():
        return seq2seq.ScheduledOutputTrainingHelper(
            X[..., :2],
            LENGTHS,
            tf.constant(probability),
            next_inputs_fn=lambda outputs: outputs[:, :2],
            auxiliary_inputs=X[..., 2:],
        )

    for helper in (of_ids, of_outputs):
        outputs, _, _ = decode_with(helper)
        state, x = START[0], X[0, 0]
        for time in range(4):
            logits, state = step(x, state)
            np.testing.assert_allclose(outputs.rnn_output[0, time], logits, atol=1e-4)
            drawn = outputs.sample_id[0, time]
            if helper is of_ids:
                assert (drawn == -1) == (probability == 0)
            if time < 3:
                x = X[0, time + 1]
                if probability:
                    own = np.concatenate([logits[:2], x[2:]])
                    x = TABLE[drawn] if helper is of_ids else own


def test_beam_search_has_the_variables_of_training(old_control_flow, plain_session):
    with tf.Graph().as_default(), plain_session() as session:
        for width in (1, 2):
            with v1.variable_scope("model", reuse=width > 1):
                memory = seq2seq.LuongAttention(UNITS, seq2seq.tile_batch(X, width))
                cell = seq2seq.AttentionWrapper(
                    rnn.GRUBlockCellV2(UNITS), memory, attention_layer_size=UNITS
                )
                start, dense = cell.zero_state(2 * width, tf.float32), layers.Dense(CLASSES)
                if width == 1:
                    helper = seq2seq.TrainingHelper(X, LENGTHS)
                    decoder = seq2seq.BasicDecoder(cell, helper, start, dense)
                    trained, _, _ = seq2seq.dynamic_decode(decoder)
                    names = [each.op.name for each in v1.global_variables()]
                else:
                    decoder = seq2seq.BeamSearchDecoder(cell, TABLE, [1, 1], END, start, 2, dense)
                    seq2seq.dynamic_decode(decoder, maximum_iterations=2)
        assert [each.op.name for each in v1.global_variables()] == names
        gradients = tf.gradients(trained.rnn_output, v1.trainable_variables())
        session.run(v1.global_variables_initializer())
        assert all(np.any(each != 0) for each in session.run(gradients))
    scope = "model/decoder/attention_wrapper"
    assert {f"{scope}/gru_cell/gates/kernel", f"{scope}/attention_layer/kernel"} <= set(names)


def log_probability(row, ids):
    state, x, total = START[row], TABLE[1], 0
    for each in ids:
        logits, state = step(x, state)
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


def test_wide_beam_finds_what_is_best_of_all_sequences(search):
    penalty = 1.0
    outputs, state, _ = search(60, penalty, LIMIT)
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


def beam_search(row, width, penalty, limit):
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
def test_narrow_beam_keeps_the_best_of_each_step(width, penalty, search):
    outputs, _, _ = search(width, penalty, 6)
    for row in range(2):
        for beam, ids in enumerate(beam_search(row, width, penalty, 6)):
            found = outputs.predicted_ids[row, :, beam].tolist()
            assert found[: len(ids)] == list(ids)
            assert set(found[len(ids) :]) <= {END}


def attention_search(width, coverage, plain_session):
    memory = np.random.RandomState(5).normal(size=[2, 3, UNITS]).astype("f4")
    # The coverage penalty is the logarithm of a share, so infinite for memory that is not there.
    sizes = np.array([3, 3 if coverage else 2])
    with tf.Graph().as_default(), plain_session() as session:
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
            embed,
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
def test_attention_history_has_the_order_of_the_beams(coverage, plain_session):
    outputs, lengths, history, log_probs = attention_search(3, coverage, plain_session)
    steps = outputs.beam_search_decoder_output
    assert outputs.predicted_ids.shape == (2, history.shape[0], 3)
    assert history.shape[1:] == (6, 3)
    np.testing.assert_allclose(history.sum(2), 1, atol=1e-5)
    assert np.all(np.diff(steps.scores[:, -1]) <= 0)
    if not coverage:
        assert np.all(history.reshape(-1, 2, 3, 3)[:, 1, :, 2] == 0)  # Its memory is shorter.
        np.testing.assert_allclose(steps.scores[:, -1], log_probs, atol=1e-5)
    assert np.all(lengths <= 4)


def test_gather_tree_follows_parents_and_keeps_what_has_ended(graph, evaluate):
    ids = np.array([[[1, 2, 3]], [[4, 5, 6]], [[7, 8, 9]], [[10, 10, 10]]], "i4")
    parents = np.array([[[0, 0, 0]], [[0, 1, 1]], [[2, 1, 2]], [[0, 0, 0]]], "i4")
    values = np.arange(12, dtype="f4").reshape(4, 3, 1)
    ended = np.array([[[5, 1]], [[2, 5]], [[3, 3]]], "i4")
    in_place = np.zeros([3, 1, 2], "i4") + np.array([0, 1], "i4")
    found = evaluate(seq2seq.gather_tree(ids, parents, [3], 10))
    assert found[:, 0].T.tolist() == [[2, 6, 7, 10], [2, 5, 8, 10], [2, 6, 9, 10]]
    stays = evaluate(seq2seq.gather_tree(ended, in_place, [3], 5))
    assert stays[:, 0].T.tolist() == [[5, 5, 5], [1, 5, 5]]
    lengths = tf.constant([[3, 2, 3]])
    ordered = evaluate(seq2seq.gather_tree_from_array(values, parents, lengths))
    assert ordered[:3, :, 0].T.tolist() == [[1, 5, 6], [1, 4, 7], [1, 5, 8]]


def test_tile_batch_repeats_in_place(graph, evaluate):
    one, other = seq2seq.tile_batch((tf.constant([1, 2]), np.array([[3], [4]])), 2)
    unknown = seq2seq.tile_batch(v1.placeholder_with_default([[1], [2]], [None, 1]), 2)
    assert (one.shape, unknown.shape[1:]) == ([4], [1])
    assert evaluate(one).tolist() == [1, 1, 2, 2]
    assert evaluate(other).tolist() == [[3], [3], [4], [4]]


basic, greedy_helper = seq2seq.BasicDecoder, seq2seq.GreedyEmbeddingHelper


def beam(**settings):
    values = {"embedding": TABLE, "start_tokens": [1], "end_token": 0, "initial_state": START}
    return seq2seq.BeamSearchDecoder(**{"cell": Cell(), **values, "beam_width": 2, **settings})


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: seq2seq.dynamic_decode(3), TypeError, "takes a Decoder, got int"),
        (lambda: basic(3, None, None), TypeError, "takes a cell, got 3"),
        (lambda: basic(Cell(), 3, None), TypeError, "takes a Helper, got int"),
        (lambda: basic(Cell(), greedy_helper(TABLE, [1], 2), START, output_layer=3), TypeError,
         "layer of tf.layers as output_layer, got 3"),
        (lambda: seq2seq.TrainingHelper(X, 3), ValueError, "sequence_length must be a vector"),
        (lambda: greedy_helper(TABLE, 1, 2), ValueError, "start_tokens must be a vector"),
        (lambda: greedy_helper(TABLE, [1], [2]), ValueError, "end_token must be a scalar"),
        (lambda: greedy_helper(TABLE, [1], 2).sample(0, (1, 2), None), TypeError, "are one tensor"),
        (lambda: seq2seq.CustomHelper(None, None, None).batch_size, ValueError, "after initialize"),
        (lambda: beam(cell=3), TypeError, "takes a cell, got 3"),
        (lambda: beam(output_layer=3), TypeError, "as output_layer, got 3"),
        (lambda: beam(start_tokens=1), ValueError, "start_tokens must be a vector"),
        (lambda: beam(end_token=[1]), ValueError, "end_token must be a scalar"),
        (lambda: beam(coverage_penalty_weight=1.0).initialize(), ValueError, "AttentionWrapper"),
        (lambda: seq2seq.tile_batch(tf.constant(1), 2), ValueError, "takes tensors"),
    ],
)  # fmt: skip
def test_messages(call, error, message, graph):
    with pytest.raises(error, match=message):
        call()
