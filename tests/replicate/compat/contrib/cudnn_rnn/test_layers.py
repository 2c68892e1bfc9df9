"""Layers of tf.contrib.cudnn_rnn against the cells that load their checkpoints."""

import numpy as np
import pytest
import tensorflow as tf

from replicate.compat import cells
from replicate.compat.contrib import cudnn_rnn, rnn

v1 = tf.compat.v1
TIMES, BATCH, WIDTH, UNITS = 4, 3, 2, 5
DRAWS = np.random.default_rng(0)
X = DRAWS.normal(size=[TIMES, BATCH, WIDTH]).astype("f4")
STATE = DRAWS.normal(size=[2, 2, BATCH, UNITS]).astype("f4")
LENGTHS = [4, 1, 3]
KINDS = {
    "lstm": (cudnn_rnn.CudnnLSTM, cudnn_rnn.CudnnCompatibleLSTMCell),
    "gru": (cudnn_rnn.CudnnGRU, cudnn_rnn.CudnnCompatibleGRUCell),
}


def state_of(kind, number):
    """State of a cell, of the state of the layer."""
    if kind == "gru":
        return tf.constant(STATE[0, number])
    return cells.LSTMStateTuple(*map(tf.constant, STATE[::-1, number]))


@pytest.mark.parametrize("kind", KINDS)
def test_layers_in_one_direction(kind, run_drawn):
    make, cell = KINDS[kind]

    def build():
        with v1.variable_scope("net"):
            layer = make(2, UNITS, dropout=0.5)
            state = tuple(STATE if kind == "lstm" else STATE[:1])
            outputs, last = layer(X, state, training=False)
            whole = layer(X.swapaxes(0, 1), None, LENGTHS, time_major=False, training=False)
            assert len(layer.trainable_variables) == len(v1.global_variables())
        with v1.variable_scope(f"net/cudnn_{kind}", reuse=True):
            stack = cells.MultiRNNCell([cell(UNITS), cell(UNITS)])
            first = tuple(state_of(kind, number) for number in range(2))
            same = v1.nn.dynamic_rnn(stack, tf.constant(X), None, first, time_major=True)
            parts = v1.nn.dynamic_rnn(
                stack, tf.constant(X), LENGTHS, dtype=tf.float32, time_major=True
            )
        return (outputs, last), same, whole, parts

    (found, same, whole, parts), w = run_drawn(build)
    assert all(
        name.startswith(
            f"net/cudnn_{kind}/rnn/multi_rnn_cell/cell_{number}/cudnn_compatible_{kind}"
        )
        for number, name in enumerate(
            name for name in w if name.endswith(("gates/kernel", "l/kernel"))
        )
    )
    np.testing.assert_allclose(found[0], same[0], atol=1e-5)
    np.testing.assert_allclose(whole[0], parts[0].swapaxes(0, 1), atol=1e-5)
    hidden = [state if kind == "gru" else state.h for state in same[1]]
    np.testing.assert_allclose(found[1][0], hidden, atol=1e-5)
    if kind == "lstm":
        np.testing.assert_allclose(found[1][1], [state.c for state in same[1]], atol=1e-5)
        ends = np.stack([state.c for state in parts[1]], 1)
        np.testing.assert_allclose(whole[1][1], ends, atol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_layers_in_both_directions(kind, run_drawn):
    make, cell = KINDS[kind]

    def build():
        outputs, last = make(2, UNITS, direction="bidirectional")(X, sequence_lengths=LENGTHS)
        pairs = [[cell(UNITS), cell(UNITS)] for _ in range(2)]
        with v1.variable_scope(f"cudnn_{kind}", reuse=True):
            same, *ends = rnn.stack_bidirectional_dynamic_rnn(
                *pairs, tf.constant(X), dtype=tf.float32, sequence_length=LENGTHS, time_major=True
            )
        return outputs, last[0], same, [state for pair in zip(*ends, strict=True) for state in pair]

    (outputs, hidden, same, ends), w = run_drawn(build)
    assert any("stack_bidirectional_rnn/cell_1/bidirectional_rnn/bw/" in name for name in w)
    np.testing.assert_allclose(outputs, same, atol=1e-5)
    expected = [state if kind == "gru" else state.h for state in ends]
    np.testing.assert_allclose(hidden, expected, atol=1e-5)


def test_first_values_are_those_of_each_gate(graph, evaluate):
    def numbered(shape, dtype):
        return tf.fill(shape, tf.cast(shape[1], dtype))

    ones = v1.ones_initializer()
    lstm = cudnn_rnn.CudnnLSTM(1, UNITS, kernel_initializer=numbered, bias_initializer=ones)
    gru = cudnn_rnn.CudnnGRU(1, UNITS, kernel_initializer=numbered, bias_initializer=ones)
    lstm.build([None, None, WIDTH])
    gru.build([None, None, WIDTH])
    assert [each.op.name.partition("/")[0] for each in lstm.weights] == ["rnn", "rnn"]
    kernel, bias, gates, of_gates, new, recurrent, *biases = evaluate([*lstm.weights, *gru.weights])
    rows = np.array([[WIDTH]] * WIDTH + [[UNITS]] * UNITS)
    np.testing.assert_array_equal(kernel, np.tile(rows, [1, 4 * UNITS]))
    np.testing.assert_array_equal(gates, np.tile(rows, [1, 2 * UNITS]))
    assert np.unique(new) == WIDTH
    assert np.unique(recurrent) == UNITS
    assert np.unique([*bias, *of_gates]).tolist() == [2]
    assert np.unique(biases).tolist() == [1]


def test_dropout_between_layers_and_messages(graph, evaluate):
    layer = cudnn_rnn.CudnnLSTM(2, UNITS, dropout=0.9, seed=1, name="mine")
    dropped, kept = layer(X)[0], layer(X, training=False)[0]
    first, other = evaluate([dropped, kept])
    assert not np.allclose(first, other)
    assert v1.global_variables()[0].op.name.startswith("mine/rnn/multi_rnn_cell/cell_0/")
    for settings, message in (
        ({"direction": "up"}, "direction must be one of"),
        ({"input_mode": "skip_input"}, "input_mode must be one of"),
    ):
        with pytest.raises(ValueError, match=message):
            cudnn_rnn.CudnnLSTM(1, 2, **settings)
    with pytest.raises(ValueError, match="use 'linear_input'"):
        cudnn_rnn.CudnnLSTM(1, WIDTH, input_mode="auto_select")(X)
    with pytest.raises(TypeError, match="initial_state must be a tuple"):
        layer(X, [STATE])
