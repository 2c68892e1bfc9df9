"""Cells and fused RNNs of tf.contrib.rnn against NumPy, with their old names of variables."""

import numpy as np
import pytest
import tensorflow as tf

from replicate.compat import cells as rnn_cell
from replicate.compat.contrib import rnn

v1 = tf.compat.v1
BATCH, TIMES, WIDTH, UNITS = 2, 4, 3, 5
DRAWS = np.random.default_rng(0)
X = DRAWS.normal(size=[BATCH, TIMES, WIDTH]).astype("f4")
LENGTHS = np.array([4, 2])


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def lstm(x, state, w, *, prefix="", clip=None, bias=1.0):
    c, h = state
    add, new, forget, output = np.split(
        np.concatenate([x, h], 1) @ w[f"{prefix}kernel"] + w[f"{prefix}bias"], 4, 1
    )
    peepholes = f"{prefix}w_i_diag" in w
    if peepholes:
        add, forget = add + c * w[f"{prefix}w_i_diag"], forget + c * w[f"{prefix}w_f_diag"]
    c = c * sigmoid(forget + bias) + sigmoid(add) * np.tanh(new)
    c = c if clip is None else np.clip(c, -clip, clip)
    output = output + c * w[f"{prefix}w_o_diag"] if peepholes else output
    h = sigmoid(output) * np.tanh(c)
    return h, (c, h)


def unrolled(step, state, x=X, lengths=None):
    outputs = []
    for time in range(x.shape[1]):
        output, new = step(x[:, time], state)
        inside = np.array([[True]] if lengths is None else time < lengths[:, None])
        outputs.append(np.where(inside, output, 0))
        state = tuple(np.where(inside, a, b) for a, b in zip(new, state, strict=True))
    return np.stack(outputs, 1), state


def zeros(*sizes):
    return tuple(np.zeros([BATCH, size]) for size in sizes)


def close(found, expected):
    np.testing.assert_allclose(found, expected, atol=2e-5)


@pytest.mark.parametrize(
    ("static", "settings"), [(False, {}), (True, {"use_peephole": True, "cell_clip": 0.3})]
)
def test_lstm_block_cell(settings, static, run_drawn):
    def build():
        cell = rnn.LSTMBlockCell(UNITS, forget_bias=0.5, **settings)
        assert isinstance(cell.zero_state(2, tf.float32), rnn_cell.LSTMStateTuple)
        if not static:
            return v1.nn.dynamic_rnn(cell, X, LENGTHS, dtype=tf.float32)
        outputs, state = v1.nn.static_rnn(cell, tf.unstack(X, axis=1), dtype=tf.float32)
        return tf.stack(outputs, 1), state

    (outputs, state), w = run_drawn(build)
    assert {name.rpartition("/")[0] for name in w} == {"rnn/lstm_cell"}
    assert {"rnn/lstm_cell/kernel", "rnn/lstm_cell/bias"} <= set(w)

    def step(x, s):
        return lstm(x, s, w, prefix="rnn/lstm_cell/", clip=settings.get("cell_clip"), bias=0.5)

    lengths = None if static else LENGTHS
    expected, (c, h) = unrolled(step, zeros(UNITS, UNITS), lengths=lengths)
    close(outputs, expected)
    close(state.c, c)
    close(state.h, h)


@pytest.mark.parametrize(
    ("kind", "names"),
    [
        (rnn.GRUBlockCell, ["w_ru", "b_ru", "w_c", "b_c"]),
        (rnn.GRUBlockCellV2, ["gates/kernel", "gates/bias", "candidate/kernel", "candidate/bias"]),
    ],
)
def test_gru_block_cells(kind, names, run_drawn):
    (outputs, state), w = run_drawn(
        lambda: v1.nn.static_rnn(kind(UNITS), tf.unstack(X, axis=1), dtype=tf.float32)
    )
    outputs = np.stack(outputs, 1)
    assert list(w) == [f"rnn/gru_cell/{name}" for name in names]
    w_ru, b_ru, w_c, b_c = w.values()

    def step(x, states):
        (h,) = states
        reset, update = np.split(sigmoid(np.concatenate([x, h], 1) @ w_ru + b_ru), 2, 1)
        new = np.tanh(np.concatenate([x, reset * h], 1) @ w_c + b_c)
        h = update * h + (1 - update) * new
        return h, (h,)

    expected, (h,) = unrolled(step, zeros(UNITS))
    close(outputs, expected)
    close(state, h)


@pytest.mark.parametrize(("lengths", "backward"), [(None, False), (LENGTHS, True)])
def test_fused_cell_gives_all_times_and_the_last_state(lengths, backward, run_drawn):
    def build():
        cell = rnn.LSTMBlockFusedCell(UNITS)
        if backward:
            cell = rnn.TimeReversedFusedRNN(cell)
        return cell(X.swapaxes(0, 1), dtype=tf.float32, sequence_length=lengths)

    (outputs, state), w = run_drawn(build)
    assert list(w) == ["lstm_fused_cell/kernel", "lstm_fused_cell/bias"]

    def turned(x):
        ends = np.full(BATCH, TIMES) if lengths is None else lengths
        rows = [[*row[:end][::-1], *row[end:]] for row, end in zip(x, ends, strict=True)]
        return np.array(rows) if backward else x

    expected, (c, h) = unrolled(
        lambda x, s: lstm(x, s, w, prefix="lstm_fused_cell/"),
        zeros(UNITS, UNITS),
        turned(X),
        lengths,
    )
    close(outputs.swapaxes(0, 1), turned(expected))
    close(state.c, c)
    close(state.h, h)


def test_fused_cells_have_scopes_of_their_own_and_take_states_and_lists(
    run_drawn, old_control_flow
):
    def build():
        forward = rnn.LSTMBlockFusedCell(UNITS)
        backward = rnn.TimeReversedFusedRNN(rnn.LSTMBlockFusedCell(UNITS, use_peephole=True))
        first, _ = forward(list(X.swapaxes(0, 1)), (tf.ones([BATCH, UNITS]),) * 2)
        assert isinstance(first, list)
        return tf.stack(first, 1), backward(X.swapaxes(0, 1), dtype=tf.float32)

    (outputs, _), w = run_drawn(build)
    assert {name.partition("/")[0] for name in w} == {"lstm_fused_cell", "lstm_fused_cell_1"}
    ones = tuple(each + 1 for each in zeros(UNITS, UNITS))
    close(outputs, unrolled(lambda x, s: lstm(x, s, w, prefix="lstm_fused_cell/"), ones)[0])


@pytest.mark.parametrize("dynamic", [True, pytest.param(False, marks=pytest.mark.broad)])
def test_adaptor_runs_a_cell(dynamic, run_drawn):
    def build():
        adaptor = rnn.FusedRNNCellAdaptor(rnn.LSTMBlockCell(UNITS), use_dynamic_rnn=dynamic)
        return adaptor(X.swapaxes(0, 1), dtype=tf.float32, sequence_length=LENGTHS)

    (outputs, state), w = run_drawn(build)
    expected, (c, _) = unrolled(
        lambda x, s: lstm(x, s, w, prefix="rnn/lstm_cell/"), zeros(UNITS, UNITS), lengths=LENGTHS
    )
    close(outputs.swapaxes(0, 1), expected)
    close(state.c, c)


@pytest.mark.parametrize("normal", [True, False])
def test_layer_norm_cell(normal, run_drawn):
    def build():
        cell = rnn.LayerNormBasicLSTMCell(UNITS, layer_norm=normal, norm_gain=2.0)
        return v1.nn.static_rnn(cell, tf.unstack(X, axis=1), dtype=tf.float32)

    (outputs, state), w = run_drawn(build)
    outputs = np.stack(outputs, 1)
    scope = "rnn/layer_norm_basic_lstm_cell/"
    names = ["kernel"]
    for gate in ("input", "transform", "forget", "output", "state"):
        names += [f"{gate}/gamma", f"{gate}/beta"]
    assert list(w) == [scope + name for name in (names if normal else ["kernel", "bias"])]

    def norm(x, gate):
        if not normal:
            return x
        x = (x - x.mean(1, keepdims=True)) / x.std(1, keepdims=True)
        return x * w[f"{scope}{gate}/gamma"] + w[f"{scope}{gate}/beta"]

    def step(x, state):
        c, h = state
        gates = np.concatenate([x, h], 1) @ w[f"{scope}kernel"] + w.get(f"{scope}bias", 0)
        add, new, forget, output = np.split(gates, 4, 1)
        forget, output = norm(forget, "forget"), norm(output, "output")
        new = sigmoid(norm(add, "input")) * np.tanh(norm(new, "transform"))
        c = norm(c * sigmoid(forget + 1) + new, "state")
        h = np.tanh(c) * sigmoid(output)
        return h, (c, h)

    expected, (c, _) = unrolled(step, zeros(UNITS, UNITS))
    np.testing.assert_allclose(outputs, expected, atol=1e-3)
    np.testing.assert_allclose(state.c, c, atol=1e-3)


def test_layer_norm_cell_starts_with_its_gain_and_drops_new_values():
    with tf.Graph().as_default(), v1.Session() as session:
        keep = v1.placeholder_with_default(0.5, [])
        cell = rnn.LayerNormBasicLSTMCell(
            50, layer_norm=False, dropout_keep_prob=keep, dropout_prob_seed=1
        )
        with v1.variable_scope("bare"):
            _, state = cell(tf.ones([4, 3]), cell.zero_state(4, tf.float32))
        other = rnn.LayerNormBasicLSTMCell(3, norm_gain=2.0, norm_shift=0.5)
        other(tf.ones([1, 3]), other.zero_state(1, tf.float32))
        session.run(v1.global_variables_initializer())
        gamma, beta = v1.global_variables("layer_norm_basic_lstm_cell/state")
        assert session.run([gamma, beta])[0].tolist() == [2.0] * 3
        assert session.run(beta).tolist() == [0.5] * 3
        assert 0.35 < np.mean(session.run(state.c) == 0) < 0.65
        assert np.all(session.run(state.c, {keep: 1.0}) != 0)


def affine(x, w, scope):
    return x @ w[f"{scope}kernel"] + w[f"{scope}bias"]


def test_projection_wrappers(run_drawn):
    def build():
        cell = rnn.InputProjectionWrapper(rnn.LSTMBlockCell(UNITS), 2, tf.nn.relu)
        cell = rnn.OutputProjectionWrapper(cell, 6, tf.tanh)
        assert (cell.output_size, cell.state_size.c) == (6, UNITS)
        return v1.nn.static_rnn(cell, tf.unstack(X, axis=1), dtype=tf.float32)

    (outputs, _), w = run_drawn(build)
    outer = "rnn/output_projection_wrapper/"
    inner = f"{outer}input_projection_wrapper/"

    def step(x, state):
        mapped = np.maximum(affine(x, w, inner), 0)
        h, state = lstm(mapped, state, w, prefix=f"{inner}lstm_cell/")
        return np.tanh(affine(h, w, outer)), state

    close(np.stack(outputs, 1), unrolled(step, zeros(UNITS, UNITS))[0])


@pytest.mark.parametrize("is_tuple", [True, pytest.param(False, marks=pytest.mark.broad)])
def test_attention_cell_wrapper(is_tuple, run_drawn):
    length, size, vec = 3, 4, 2

    def build():
        cell = rnn.GRUBlockCellV2(UNITS)
        cell = rnn.AttentionCellWrapper(cell, length, size, vec, state_is_tuple=is_tuple)
        return v1.nn.dynamic_rnn(cell, X, dtype=tf.float32)

    (outputs, state), w = run_drawn(build)
    scope = "rnn/attention_cell_wrapper/"

    def step(x, states):
        h, attention, past = states
        mapped = affine(np.concatenate([x, attention], 1), w, scope)
        gates = sigmoid(affine(np.concatenate([mapped, h], 1), w, f"{scope}gru_cell/gates/"))
        reset, update = np.split(gates, 2, 1)
        new = affine(np.concatenate([mapped, reset * h], 1), w, f"{scope}gru_cell/candidate/")
        h = update * h + (1 - update) * np.tanh(new)
        past = past.reshape(BATCH, length, size)
        hidden = past @ w[f"{scope}attention/attn_w"][0, 0]
        hidden = np.tanh(hidden + affine(h, w, f"{scope}attention/")[:, None])
        scores = np.exp((hidden * w[f"{scope}attention/attn_v"]).sum(2))
        attention = ((scores / scores.sum(1, keepdims=True))[..., None] * past).sum(1)
        output = affine(np.concatenate([h, attention], 1), w, f"{scope}attn_output_projection/")
        past = np.concatenate([past[:, 1:], output[:, None]], 1).reshape(BATCH, -1)
        return output, (h, attention, past)

    expected, states = unrolled(step, zeros(UNITS, size, size * length))
    close(outputs, expected)
    close(np.concatenate(state, 1) if is_tuple else state, np.concatenate(states, 1))


def cells(*sizes):
    return [rnn.LSTMBlockCell(size) for size in sizes]


def layers(forward, backward):
    """The stack by hand, in the scopes of the stack."""
    outputs = tf.constant(X)
    states = []
    for number, each in enumerate(zip(forward, backward, strict=True)):
        with v1.variable_scope(f"stack_bidirectional_rnn/cell_{number}", reuse=True):
            outputs, state = v1.nn.bidirectional_dynamic_rnn(
                *each, outputs, LENGTHS, dtype=tf.float32
            )
        outputs = tf.concat(outputs, 2)
        states.append(state)
    return outputs, states


@pytest.mark.parametrize("static", [True, False])
def test_stack_is_a_loop(static, plain_session):
    with tf.Graph().as_default(), plain_session() as session:
        settings = {"dtype": tf.float32, "sequence_length": LENGTHS}
        if static:
            outputs, *states = rnn.stack_bidirectional_rnn(
                cells(5, 6), cells(4, 3), tf.unstack(X, axis=1), **settings
            )
            outputs = tf.stack(outputs, 1)
        else:
            outputs, *states = rnn.stack_bidirectional_dynamic_rnn(
                cells(5, 6), cells(4, 3), X, swap_memory=True, parallel_iterations=2, **settings
            )
        expected = layers(cells(5, 6), cells(4, 3))
        session.run(v1.global_variables_initializer())
        found, wanted = session.run(((outputs, list(zip(*states, strict=True))), expected))
    for one, other in zip(tf.nest.flatten(found), tf.nest.flatten(wanted), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-6)


def test_transpose_exchanges_batch_and_time(graph, evaluate):
    unknown = v1.placeholder_with_default(X, None)
    assert rnn.transpose_batch_time(X[0, 0]).shape == [3]
    for each in evaluate([rnn.transpose_batch_time(X), rnn.transpose_batch_time(unknown)]):
        np.testing.assert_array_equal(each, X.swapaxes(0, 1))


cell, fused = rnn.LSTMBlockCell, rnn.LSTMBlockFusedCell
wrapped = rnn.AttentionCellWrapper


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (rnn.GRUBlockCell, ValueError, "num_units=None and cell_size=None"),
        (lambda: rnn.OutputProjectionWrapper(3, 2), TypeError, "takes a cell, got 3"),
        (lambda: rnn.OutputProjectionWrapper(cell(2), 0), ValueError, "output_size=0"),
        (lambda: wrapped(cell(2), 0), ValueError, "attn_length=0"),
        (lambda: wrapped(cell(2), 1, state_is_tuple=False), ValueError, "state_is_tuple=False"),
        (lambda: wrapped(3, 1), TypeError, "takes a cell, got 3"),
        (lambda: fused(2)(tf.ones([1, 1, 1])), ValueError, "got neither"),
        (lambda: fused(2)(v1.placeholder("float", [1, 1, None]), None, "float"), ValueError,
         "last dimension is known"),
        (lambda: rnn.stack_bidirectional_dynamic_rnn([], [], X), ValueError, "one or more cells"),
        (lambda: rnn.stack_bidirectional_dynamic_rnn([1, 2], [1], X), ValueError,
         "2 forward cells, 1 backward"),
        (lambda: rnn.linear([], 3, True), ValueError, "one or more inputs"),
        (lambda: rnn.linear(tf.ones([3]), 3, True), ValueError, "of shape .3,"),
        (lambda: cell(2)(tf.ones([1, 1]), (tf.ones([1, 2]),)), ValueError, "takes a state"),
    ],
)  # fmt: skip
def test_messages(call, error, message):
    with tf.Graph().as_default(), pytest.raises(error, match=message):
        call()
