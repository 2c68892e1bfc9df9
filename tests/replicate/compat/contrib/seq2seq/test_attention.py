"""Attention mechanisms and their cell against NumPy, with their old names of variables."""

import numpy as np
import pytest
import tensorflow as tf

from replicate.compat.contrib import rnn, seq2seq

v1 = tf.compat.v1
DRAWS = np.random.default_rng(0)
BATCH, TIMES, SIZE, UNITS = 2, 3, 4, 5
MEMORY = DRAWS.normal(size=[BATCH, TIMES, SIZE]).astype("f4")
LENGTHS = np.array([3, 2])
X = DRAWS.normal(size=[BATCH, 2, 3]).astype("f4")
QUERY = DRAWS.normal(size=[BATCH, UNITS]).astype("f4")


def softmax(scores):
    scores = np.where(np.arange(TIMES) < LENGTHS[:, None], scores, -np.inf)
    shares = np.exp(scores - scores.max(1, keepdims=True))
    return shares / shares.sum(1, keepdims=True)


INSIDE = MEMORY * (np.arange(TIMES) < LENGTHS[:, None])[..., None]


def luong(query, w, scope=""):
    scores = np.einsum("btu,bu->bt", INSIDE @ w["memory_layer/kernel"], query)
    return softmax(scores * w.get(f"{scope}luong_attention/attention_g", 1))


def bahdanau(query, w, scope=""):
    scope += "bahdanau_attention/"
    hidden = INSIDE @ w["memory_layer/kernel"]
    hidden = hidden + (query @ w[f"{scope}query_layer/kernel"])[:, None]
    vector = w[f"{scope}attention_v"]
    if f"{scope}attention_g" in w:
        hidden = hidden + w[f"{scope}attention_b"]
        vector = w[f"{scope}attention_g"] * vector / np.linalg.norm(vector)
    return softmax((vector * np.tanh(hidden)).sum(2))


@pytest.mark.parametrize("more", [True, False])
@pytest.mark.parametrize(
    ("kind", "reference", "setting"),
    [(seq2seq.LuongAttention, luong, "scale"), (seq2seq.BahdanauAttention, bahdanau, "normalize")],
)
def test_mechanisms(more, kind, reference, setting, run_drawn):
    def build():
        mechanism = kind(UNITS, MEMORY, LENGTHS, **{setting: more})
        assert mechanism.alignments_size == TIMES
        state = mechanism.initial_state(BATCH, tf.float32)
        return mechanism(tf.constant(QUERY), state)

    (shares, state), w = run_drawn(build)
    np.testing.assert_allclose(shares, reference(QUERY, w), atol=1e-5)
    np.testing.assert_array_equal(state, shares)
    assert (f"{reference.__name__}_attention/attention_g" in w) is more
    assert w["memory_layer/kernel"].shape == (SIZE, UNITS)


def test_normalized_attention_starts_with_its_gain_and_hardmax(graph, evaluate):
    mechanism = seq2seq.BahdanauAttention(4, MEMORY, normalize=True)
    mechanism(tf.constant(QUERY), mechanism.initial_state(BATCH, tf.float32))
    (gain,) = v1.global_variables("bahdanau_attention/attention_g")
    assert evaluate(gain) == 0.5
    hard = evaluate(seq2seq.hardmax([[1.0, 3, 2], [5, 4, 0]]))
    assert hard.tolist() == [[0, 1, 0], [1, 0, 0]]


@pytest.mark.parametrize(("layer_size", "outputs_attention"), [(None, False), (6, True)])
def test_wrapper(layer_size, outputs_attention, run_drawn):
    def build():
        mechanism = seq2seq.BahdanauAttention(UNITS, MEMORY, LENGTHS)
        cell = seq2seq.AttentionWrapper(
            rnn.GRUBlockCellV2(UNITS),
            mechanism,
            attention_layer_size=layer_size,
            alignment_history=True,
            output_attention=outputs_attention,
        )
        start = cell.zero_state(BATCH, tf.float32).clone(cell_state=tf.constant(QUERY))
        decoder = seq2seq.BasicDecoder(cell, seq2seq.TrainingHelper(X, [2, 2]), start)
        outputs, state, _ = seq2seq.dynamic_decode(decoder)
        assert outputs.rnn_output.shape.as_list()[2] == cell.output_size
        history = state.alignment_history.stack()
        return outputs.rnn_output, state.cell_state, history, state.time, state.alignments

    (outputs, state, history, time, shares), w = run_drawn(build)
    scope = "decoder/attention_wrapper/"
    assert (f"{scope}attention_layer/kernel" in w) is bool(layer_size)

    def affine(x, name):
        return x @ w[f"{scope}gru_cell/{name}/kernel"] + w[f"{scope}gru_cell/{name}/bias"]

    h, attention = QUERY, np.zeros([BATCH, layer_size or SIZE])
    for step in range(2):
        x = np.concatenate([X[:, step], attention], 1)
        gates = 1 / (1 + np.exp(-affine(np.concatenate([x, h], 1), "gates")))
        reset, update = np.split(gates, 2, 1)
        new = np.tanh(affine(np.concatenate([x, reset * h], 1), "candidate"))
        h = update * h + (1 - update) * new
        expected = bahdanau(h, w, scope)
        attention = np.einsum("bt,bts->bs", expected, INSIDE)
        if layer_size:
            both = np.concatenate([h, attention], 1)
            attention = both @ w[f"{scope}attention_layer/kernel"]
        np.testing.assert_allclose(history[step], expected, atol=1e-5)
        wanted = attention if outputs_attention else h
        np.testing.assert_allclose(outputs[:, step], wanted, atol=1e-4)
    np.testing.assert_allclose(state, h, atol=1e-5)
    np.testing.assert_allclose(shares, history[1])
    assert time == 2


def test_wrapper_with_two_mechanisms_and_an_initial_state(run_drawn):
    def build():
        mechanisms = [
            seq2seq.LuongAttention(UNITS, MEMORY, LENGTHS, name="a"),
            seq2seq.LuongAttention(UNITS, MEMORY),
        ]
        cell = rnn.LSTMBlockCell(UNITS)
        start = cell.zero_state(BATCH, tf.float32)._replace(h=QUERY)
        cell = seq2seq.AttentionWrapper(
            cell,
            mechanisms,
            [6, 7],
            initial_cell_state=start,
            cell_input_fn=lambda inputs, attention: inputs,
        )
        state = cell.zero_state(BATCH, tf.float32)
        tf.nest.assert_same_structure(state, cell.state_size)
        output, following = cell(tf.constant(X[:, 0]), state)
        tf.nest.assert_same_structure(state, following)
        assert output.shape == [BATCH, 13]
        return state.cell_state.h, following.alignments, output

    (first, shares, _), w = run_drawn(build)
    np.testing.assert_array_equal(first, QUERY)
    assert len(shares) == 2
    layers = [name for name in w if "attention_layer" in name]
    assert layers == [
        "attention_wrapper/attention_layer/kernel",
        "attention_wrapper/attention_layer_1/kernel",
    ]


def wrapper(*arguments, **settings):
    return seq2seq.AttentionWrapper(
        rnn.LSTMBlockCell(UNITS), seq2seq.LuongAttention(UNITS, MEMORY), *arguments, **settings
    )


def luong_of(query, lengths=None):
    return seq2seq.LuongAttention(2, MEMORY, lengths)(query, tf.ones([2, 3]))


INVALID = tf.errors.InvalidArgumentError


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: seq2seq.AttentionWrapper(3, None), TypeError, "takes a cell, got 3"),
        (lambda: seq2seq.AttentionWrapper(rnn.LSTMBlockCell(2), 3), TypeError, "mechanisms, got 3"),
        (lambda: wrapper(cell_input_fn=3), TypeError, "takes functions, got 3"),
        (lambda: wrapper([2, 3]), ValueError, "1 attention mechanisms with 2 sizes"),
        (lambda: wrapper(2, attention_layer=max), ValueError, "not both"),
        (lambda: wrapper()(X[:, 0], tf.zeros([2, 2])), TypeError, r"zero_state\(batch_size, dtype"),
        (lambda: wrapper().zero_state(6, tf.float32), INVALID, "tile_batch"),
        (lambda: luong_of(tf.ones([2, 3])), ValueError, "queries of 3 units, .* keys have 2"),
        (lambda: luong_of(tf.ones([2, 2]), [3, 0]), INVALID, "at least 1"),
    ],
)
def test_messages(call, error, message):
    with tf.Graph().as_default(), pytest.raises(error, match=message):
        call()
