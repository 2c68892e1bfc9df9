"""Monotonic attention against a loop in NumPy, and mechanisms that programs derive."""

import numpy as np
import pytest
import tensorflow as tf

from replicate.compat import cells
from replicate.compat.contrib import seq2seq

v1 = tf.compat.v1
DRAWS = np.random.default_rng(0)
BATCH, TIMES, SIZE, UNITS = 2, 4, 3, 5
MEMORY = DRAWS.normal(size=[BATCH, TIMES, SIZE]).astype("f4")
LENGTHS = np.array([4, 2])
QUERY = DRAWS.normal(size=[BATCH, UNITS]).astype("f4")
PREVIOUS = DRAWS.dirichlet(np.ones(TIMES), BATCH).astype("f4")


def stops(p, previous):
    """Expected shares: the chance to come to a time, from each earlier one, times that to stop."""
    shares = np.zeros_like(p)
    for row, start, end in np.ndindex(len(p), TIMES, TIMES):
        if start <= end:
            passed = np.prod(1 - p[row, start:end])
            shares[row, end] += previous[row, start] * passed * p[row, end]
    return shares


@pytest.mark.parametrize("mode", ["recursive", "parallel", "hard"])
def test_shares(mode, graph, evaluate):
    p = DRAWS.uniform(size=[BATCH, TIMES]).astype("f4")
    previous = PREVIOUS
    if mode == "hard":
        p, previous = np.array([[0, 1, 0, 1], [1, 0, 0, 0.0]]), np.eye(4)[[0, 1]]
    found = evaluate(seq2seq.monotonic_attention(p, previous, mode))
    np.testing.assert_allclose(found, stops(p, previous), atol=1e-6)
    small = evaluate(seq2seq.safe_cumprod(tf.constant([0.5, 0.0, 1.0]), exclusive=True))
    np.testing.assert_allclose(small, [1, 0.5, 0], atol=1e-6)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


@pytest.mark.parametrize(
    ("kind", "scope", "more"),
    [
        (seq2seq.BahdanauMonotonicAttention, "bahdanau_monotonic_attention/", "normalize"),
        (seq2seq.LuongMonotonicAttention, "luong_monotonic_attention/", "scale"),
    ],
)
def test_mechanisms(kind, scope, more, run_drawn):
    def build():
        mechanism = kind(UNITS, MEMORY, LENGTHS, **{more: True})
        first = mechanism.initial_state(BATCH, tf.float32)
        return first, mechanism(tf.constant(QUERY), tf.constant(PREVIOUS))

    (first, (shares, state)), w = run_drawn(build)
    keys = (MEMORY * (np.arange(TIMES) < LENGTHS[:, None])[..., None]) @ w["memory_layer/kernel"]
    gain, bias = w[f"{scope}attention_g"], w[f"{scope}attention_score_bias"]
    if more == "scale":
        scores = gain * np.einsum("btu,bu->bt", keys, QUERY)
    else:
        vector = w[f"{scope}attention_v"]
        hidden = (
            keys + (QUERY @ w[f"{scope}query_layer/kernel"])[:, None] + w[f"{scope}attention_b"]
        )
        scores = np.tanh(hidden) @ (gain * vector / np.linalg.norm(vector))
    p = np.where(np.arange(TIMES) < LENGTHS[:, None], sigmoid(scores + bias), 0)
    np.testing.assert_array_equal(first, np.eye(TIMES)[[0, 0]])
    np.testing.assert_allclose(shares, stops(p, PREVIOUS), atol=1e-5)
    np.testing.assert_array_equal(state, shares)


class Cumulative(seq2seq.BahdanauAttention):
    """A mechanism whose state is the sum of all alignments, as speech synthesizers have it."""

    def __init__(self, num_units, memory, lengths):
        super().__init__(num_units, memory, lengths, name="Cumulative")

    def __call__(self, query, state):
        with v1.variable_scope(None, "cumulative", [query]):
            weight = v1.get_variable("weight", [self._num_units])
            location = tf.expand_dims(state, 2) * weight
            hidden = tf.tanh(self.keys + tf.expand_dims(self.query_layer(query), 1) + location)
            alignments = self._probability_fn(tf.reduce_sum(hidden, 2), state)
        return alignments, alignments + state


def test_mechanism_of_a_program(run_drawn):
    def build():
        mechanism = Cumulative(UNITS, MEMORY, LENGTHS)
        cell = seq2seq.AttentionWrapper(cells.GRUCell(UNITS), mechanism, output_attention=False)
        assert cell._attention_mechanisms == [mechanism]
        helper = seq2seq.TrainingHelper(MEMORY, LENGTHS)
        start = cell.zero_state(BATCH, tf.float32)
        decoder = seq2seq.BasicDecoder(cell, helper, start)
        return seq2seq.dynamic_decode(decoder)[1].attention_state

    sums, w = run_drawn(build)
    np.testing.assert_allclose(sums.sum(1), [4, 4], atol=1e-5)
    assert np.all(sums[1, 2:] == 0)
    assert "decoder/attention_wrapper/cumulative/weight" in w


def test_hard_mode_and_noise_and_messages(graph, evaluate):
    hard = seq2seq.LuongMonotonicAttention(
        UNITS, MEMORY, mode="hard", sigmoid_noise=0.5, score_bias_init=100.0
    )
    shares, _ = hard(tf.constant(QUERY), hard.initial_state(BATCH, tf.float32))
    np.testing.assert_array_equal(evaluate(shares), np.eye(TIMES)[[0, 0]])
    with pytest.raises(ValueError, match="mode='soft', which must be one of"):
        seq2seq.monotonic_attention([[0.5]], [[1.0]], "soft")
