"""tf.contrib.legacy_seq2seq against NumPy, with its old names of variables."""

import numpy as np
import pytest
import tensorflow as tf

from replicate.compat import cells as rnn_cell
from replicate.compat.contrib import legacy_seq2seq as seq2seq
from replicate.compat.contrib import rnn

v1 = tf.compat.v1
DRAWS = np.random.default_rng(0)
BATCH, UNITS, IDS, SIZE = 2, 3, 5, 4
X = DRAWS.normal(size=[3, BATCH, SIZE]).astype("f4")
Y = DRAWS.normal(size=[2, BATCH, SIZE]).astype("f4")
X_IDS = DRAWS.integers(0, IDS, size=[3, BATCH])
Y_IDS = DRAWS.integers(0, IDS, size=[3, BATCH])


class Cell(rnn_cell.RNNCell):
    """A plain cell with variables of its own."""

    def __init__(self, units=UNITS):
        super().__init__(name="cell")
        self.units = units

    @property
    def state_size(self):
        return self.units

    @property
    def output_size(self):
        return self.units

    def call(self, inputs, state):
        state = tf.tanh(rnn.linear([inputs, state], self.units, True))
        return state, state


def affine(x, w, scope):
    return np.concatenate(x, 1) @ w[f"{scope}kernel"] + w[f"{scope}bias"]


def step(x, h, w, scope):
    return np.tanh(affine([x, h], w, scope))


def unrolled(xs, h, w, scope):
    outputs = []
    for x in xs:
        h = step(x, h, w, scope)
        outputs.append(h)
    return outputs, h


def lists(*arrays):
    return [[tf.constant(each) for each in array] for array in arrays]


ZEROS = np.zeros([BATCH, UNITS])
LOGITS = DRAWS.normal(size=[3, BATCH, IDS]).astype("f4")
WEIGHTS = np.array([[1, 0.5], [2, 1], [0, 1]], "f4")


def losses_of(logits, weights):
    chosen = np.take_along_axis(logits, Y_IDS[: len(logits), :, None], 2)[..., 0]
    return weights * (np.log(np.exp(logits).sum(2)) - chosen)


LOSSES = losses_of(LOGITS, WEIGHTS)


def test_losses(run_drawn):
    def own(labels, logits):
        return tf.cast(labels, tf.float32) + logits[:, 0]

    def build():
        given = lists(LOGITS, Y_IDS, WEIGHTS)
        return [
            seq2seq.sequence_loss_by_example(*given),
            seq2seq.sequence_loss_by_example(*given, average_across_timesteps=False),
            seq2seq.sequence_loss(*given),
            seq2seq.sequence_loss(*given, False, False),
            seq2seq.sequence_loss(*given, False, False, softmax_loss_function=own),
        ]

    averages, sums = LOSSES.sum(0) / WEIGHTS.sum(0), LOSSES.sum(0)
    of_own = (WEIGHTS * (Y_IDS + LOGITS[..., 0])).sum()
    expected = [averages, sums, averages.mean(), sums.sum(), of_own]
    for value, wanted in zip(run_drawn(build)[0], expected, strict=True):
        np.testing.assert_allclose(value, wanted, rtol=1e-5)


def test_basic_and_tied_models(run_drawn):
    (outputs, _), w = run_drawn(lambda: seq2seq.basic_rnn_seq2seq(*lists(X, Y), Cell()))
    _, h = unrolled(X, ZEROS, w, "basic_rnn_seq2seq/rnn/cell/")
    expected, _ = unrolled(Y, h, w, "basic_rnn_seq2seq/rnn_decoder/cell/")
    np.testing.assert_allclose(outputs, expected, atol=1e-5)

    def loop(previous, time):
        return tf.concat([previous, tf.fill([BATCH, 1], float(time))], 1)

    scope = "combined_tied_rnn_seq2seq/tied_rnn_seq2seq/cell/"
    for function in (None, loop):
        (outputs, _), w = run_drawn(
            lambda function=function: seq2seq.tied_rnn_seq2seq(*lists(X, Y), Cell(), function)
        )
        assert sorted(w) == [f"{scope}bias", f"{scope}kernel"]
        (*_, first), h = unrolled([*X, Y[0]], ZEROS, w, scope)
        x = np.concatenate([h, np.ones([BATCH, 1])], 1) if function else Y[1]
        np.testing.assert_allclose(outputs, [first, step(x, h, w, scope)], atol=1e-5)


@pytest.mark.parametrize(("feeds", "projects"), [(True, True), (True, False), (False, True)])
def test_embedding_model(feeds, projects, run_drawn):
    projection = DRAWS.normal(size=[UNITS, IDS]).astype("f4"), np.arange(IDS, dtype="f4")

    def build():
        return seq2seq.embedding_rnn_seq2seq(
            *lists(X_IDS, Y_IDS),
            Cell(),
            IDS,
            IDS,
            SIZE,
            output_projection=projection if projects else None,
            feed_previous=feeds,
        )

    (outputs, _), w = run_drawn(build)
    scope = "embedding_rnn_seq2seq/"
    encoder = f"{scope}rnn/embedding_wrapper/"
    _, h = unrolled(w[f"{encoder}embedding"][X_IDS], ZEROS, w, f"{encoder}cell/")
    decoder = f"{scope}embedding_rnn_decoder/"
    inner = f"{decoder}rnn_decoder/" + ("" if projects else "output_projection_wrapper/")
    ids = Y_IDS[0]
    for time in range(3):
        ids = ids if feeds else Y_IDS[time]
        h = step(w[f"{decoder}embedding"][ids], h, w, f"{inner}cell/")
        output = h if projects else affine([h], w, inner)
        np.testing.assert_allclose(outputs[time], output, atol=1e-4)
        logits = output @ projection[0] + projection[1] if projects else output
        ids = np.argmax(logits, 1)


def reads(query, memory, w, scope, heads):
    found = []
    for head in range(heads):
        hidden = memory @ w[f"{scope}AttnW_{head}"][0, 0]
        hidden = np.tanh(hidden + affine([query], w, f"{scope}Attention_{head}/")[:, None])
        scores = np.exp((w[f"{scope}AttnV_{head}"] * hidden).sum(2))
        shares = scores / scores.sum(1, keepdims=True)
        found.append((shares[..., None] * memory).sum(1))
    return found


def test_attention_decoder_with_two_heads_that_reads_before_it_starts(run_drawn):
    memory = DRAWS.normal(size=[BATCH, 4, 6]).astype("f4")
    start = DRAWS.normal(size=[BATCH, UNITS]).astype("f4")

    def build():
        return seq2seq.attention_decoder(
            *lists(X),
            tf.constant(start),
            tf.constant(memory),
            Cell(),
            output_size=7,
            num_heads=2,
            initial_state_attention=True,
        )

    (outputs, _), w = run_drawn(build)
    scope = "attention_decoder/"
    h, attentions = start, reads(start, memory, w, scope, 2)
    for time in range(3):
        h = step(affine([X[time], *attentions], w, scope), h, w, f"{scope}cell/")
        attentions = reads(h, memory, w, scope, 2)
        expected = affine([h, *attentions], w, f"{scope}AttnOutputProjection/")
        np.testing.assert_allclose(outputs[time], expected, atol=1e-4)


@pytest.mark.parametrize("feeds", [pytest.param(False, marks=pytest.mark.broad), "tensor"])
def test_attention_model(feeds, run_drawn):
    def build():
        feed = v1.placeholder_with_default(True, []) if feeds == "tensor" else feeds
        return seq2seq.embedding_attention_seq2seq(
            *lists(X_IDS, Y_IDS), Cell(), IDS, IDS, SIZE, feed_previous=feed
        )

    (outputs, _), w = run_drawn(build)
    encoder = "embedding_attention_seq2seq/rnn/embedding_wrapper/"
    memory, h = unrolled(w[f"{encoder}embedding"][X_IDS], ZEROS, w, f"{encoder}cell/")
    memory = np.stack(memory, 1)
    embedding = w["embedding_attention_seq2seq/embedding_attention_decoder/embedding"]
    scope = "embedding_attention_seq2seq/embedding_attention_decoder/attention_decoder/"
    attentions, ids = [np.zeros([BATCH, UNITS])], Y_IDS[0]
    for time in range(3):
        ids = ids if feeds else Y_IDS[time]
        mixed = affine([embedding[ids], *attentions], w, scope)
        h = step(mixed, h, w, f"{scope}output_projection_wrapper/cell/")
        logits = affine([h], w, f"{scope}output_projection_wrapper/")
        attentions = reads(h, memory, w, scope, 1)
        output = affine([logits, *attentions], w, f"{scope}AttnOutputProjection/")
        np.testing.assert_allclose(outputs[time], output, atol=1e-4)
        ids = np.argmax(output, 1)


@pytest.mark.parametrize("per_example", [True, False])
def test_buckets_share_variables(per_example, run_drawn):
    def model(encoder, decoder):
        return seq2seq.embedding_rnn_seq2seq(encoder, decoder, Cell(), IDS, IDS, SIZE)

    def build():
        inputs = lists(X_IDS, Y_IDS, Y_IDS, WEIGHTS)
        return seq2seq.model_with_buckets(
            *inputs, [(2, 1), (3, 3)], model, per_example_loss=per_example
        )

    (outputs, losses), w = run_drawn(build)
    assert len(w) == 8
    assert [len(each) for each in outputs] == [1, 3]
    for found, loss in zip(outputs, losses, strict=True):
        weights = WEIGHTS[: len(found)]
        expected = losses_of(np.array(found), weights).sum(0) / weights.sum(0)
        np.testing.assert_allclose(loss, expected if per_example else expected.mean(), rtol=1e-4)


def attention(size, states, **settings):
    inputs = [v1.placeholder("float", [1, size])]
    return seq2seq.attention_decoder(inputs, 0, tf.ones(states), Cell(), **settings)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: seq2seq.sequence_loss_by_example([1], [], []), "got 1, 0 and 0"),
        (lambda: seq2seq.attention_decoder([], 0, 0, 0), "one or more decoder_inputs"),
        (lambda: attention(1, [1, 1, 1], num_heads=0), "num_heads=0"),
        (lambda: attention(1, [1, 1]), "attention_states"),
        (lambda: attention(None, [1, 1, 1]), "inputs of known size"),
        (lambda: seq2seq.model_with_buckets([1], [1], [1], [1], [(2, 1)], None), "needs 2 encoder"),
    ],
)
def test_messages(call, message):
    with tf.Graph().as_default(), pytest.raises(ValueError, match=message):
        call()
