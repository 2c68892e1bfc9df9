"""The rarer cells of tf.contrib.rnn and cudnn_rnn against NumPy."""

import numpy as np
import pytest
import tensorflow as tf

from replicate.compat.contrib import cudnn_rnn, rnn

v1 = tf.compat.v1
BATCH, TIMES, WIDTH, UNITS = 2, 2, 3, 5
DRAWS = np.random.default_rng(0)
X = DRAWS.normal(size=[BATCH, TIMES, WIDTH]).astype("f4")
IMAGES = DRAWS.normal(size=[BATCH, TIMES, 4, 3, 2]).astype("f4")


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def relu(x):
    return np.maximum(x, 0)


def beside(*parts):
    return np.concatenate(parts, -1)


def affine(w, scope, *inputs):
    return beside(*inputs) @ w[f"{scope}kernel"] + w[f"{scope}bias"]


def nas(w, x, state):
    c, h = state
    i = np.split(x @ w["kernel"], 8, 1)
    m = np.split(h @ w["recurrent_kernel"] + w["bias"], 8, 1)
    s = [a + b for a, b in zip(i, m, strict=True)]
    one = np.tanh(sigmoid(s[0]) * relu(s[1]))
    two = np.tanh(sigmoid(s[2]) + relu(i[3] * m[3]))
    three = np.tanh(np.tanh(s[4]) * sigmoid(s[5]))
    four = sigmoid(np.tanh(s[6]) + sigmoid(s[7]))
    c = np.tanh(one + c) * two
    h = np.tanh(c * np.tanh(three + four)) @ w["projection_weights"]
    return h, (c, h)


def update_gate(w, x, h):
    gate, new = np.split(affine(w, "", x, h), 2, 1)
    gate = sigmoid(gate + 1)
    h = gate * h + (1 - gate) * np.tanh(new)
    return h, h


def intersection(w, x, h):
    x = affine(w, "in_projection/", x) if "in_projection/kernel" in w else x
    time, new, depth, output = np.split(affine(w, "", x, h), 4, 1)
    time, depth = sigmoid(time + 1), sigmoid(depth + 1)
    return depth * x + (1 - depth) * relu(output), time * h + (1 - time) * np.tanh(new)


def normal(w, x, scope):
    if f"{scope}/gamma" not in w:
        return x
    x = (x - x.mean(1, keepdims=True)) / x.std(1, keepdims=True)
    return x * w[f"{scope}/gamma"] + w[f"{scope}/beta"]


def coupled(w, x, state):
    c, h = state
    whole = np.concatenate(
        [w[name] for name in sorted(w) if name[:2] == "W_" and name[2:].isdigit()]
    )
    gates = beside(x, h) @ whole + (0 if "state/gamma" in w else w["B"])
    scopes = "transform", "forget", "output"
    new, forget, output = map(normal, [w] * 3, np.split(gates, 3, 1), scopes)
    forget = sigmoid(forget + 1 + w.get("W_F_diag", 0) * c)
    c = normal(w, forget * c + (1 - forget) * np.tanh(new), "state")
    h = sigmoid(output + w.get("W_O_diag", 0) * c) * np.tanh(c)
    h = np.clip(h @ w["W_P_0"], -0.3, 0.3) if "W_P_0" in w else h
    return h, (c, h)


def convolutional(w, x, state):
    c, h = state
    values = np.pad(beside(x, h), [(0, 0), (1, 1), (0, 0), (0, 0)])
    rows = [values[:, row : row + 4] @ w["kernel"][row, 0] for row in range(3)]
    add, new, forget, output = np.split(sum(rows) + w["biases"], 4, -1)
    c = sigmoid(forget + 1) * c + sigmoid(add) * np.tanh(new)
    h = beside(np.tanh(c) * sigmoid(output), x)
    return h, (c, h)


def cudnn_lstm(w, x, state):
    c, h = state
    add, new, forget, output = np.split(affine(w, "", x, h), 4, 1)
    c = sigmoid(forget) * c + sigmoid(add) * np.tanh(new)
    h = sigmoid(output) * np.tanh(c)
    return h, (c, h)


def cudnn_gru(w, x, h):
    reset, update = np.split(sigmoid(affine(w, "gates/", x, h)), 2, 1)
    of_state = affine(w, "candidate/hidden_projection/", h)
    new = np.tanh(affine(w, "candidate/input_projection/", x) + reset * of_state)
    h = (1 - update) * new + update * h
    return h, h


CASES = {
    "nas_cell": (
        lambda: rnn.NASCell(UNITS, num_proj=2, use_bias=True),
        nas,
        ["recurrent_kernel", "kernel", "bias", "projection_weights"],
    ),
    "ugrnn_cell": (lambda: rnn.UGRNNCell(UNITS), update_gate, ["kernel", "bias"]),
    "intersection_rnn_cell": (
        lambda: rnn.IntersectionRNNCell(UNITS, UNITS),
        intersection,
        ["in_projection/kernel", "in_projection/bias", "kernel", "bias"],
    ),
    "coupled_input_forget_gate_lstm_cell": (
        lambda: rnn.CoupledInputForgetGateLSTMCell(
            UNITS, use_peepholes=True, num_proj=2, proj_clip=0.3, num_unit_shards=2
        ),
        coupled,
        ["W_0", "W_1", "B", "W_F_diag", "W_O_diag", "W_P_0"],
    ),
    "coupled_input_forget_gate_lstm_cell/": (
        lambda: rnn.CoupledInputForgetGateLSTMCell(UNITS, layer_norm=True),
        coupled,
        ["W_0", "B"]
        + [
            f"{scope}/{name}"
            for scope in ("transform", "forget", "output", "state")
            for name in ("gamma", "beta")
        ],
    ),
    "conv_2d_lstm_cell": (
        lambda: rnn.Conv2DLSTMCell(
            input_shape=[4, 3, 2], output_channels=3, kernel_shape=[3, 1], skip_connection=True
        ),
        convolutional,
        ["kernel", "biases"],
    ),
    "cudnn_compatible_lstm_cell": (
        lambda: cudnn_rnn.CudnnCompatibleLSTMCell(UNITS),
        cudnn_lstm,
        ["kernel", "bias"],
    ),
    "cudnn_compatible_gru_cell": (
        lambda: cudnn_rnn.CudnnCompatibleGRUCell(UNITS),
        cudnn_gru,
        ["gates/kernel", "gates/bias"]
        + [
            f"candidate/{part}_projection/{name}"
            for name in ("kernel", "bias")
            for part in ("input", "hidden")
        ],
    ),
}


@pytest.mark.parametrize("scope", CASES)
def test_rare_cells(scope, run_drawn):
    make, step, names = CASES[scope]
    x = IMAGES if scope == "conv_2d_lstm_cell" else X
    start = make().state_size

    def zeros(size):
        return np.zeros([BATCH, *(size if isinstance(size, tf.TensorShape) else [size])])

    (outputs, state), w = run_drawn(
        lambda: v1.nn.dynamic_rnn(make(), x, dtype=tf.float32),
        unused=int(scope.endswith("/")),  # Layer normalization leaves B unused.
    )
    scope = f"rnn/{scope.rstrip('/')}/"
    assert list(w) == [f"{scope}{name}" for name in names]
    values = {name.removeprefix(scope): value for name, value in w.items()}
    expected = tf.nest.map_structure(zeros, start)
    for time in range(TIMES):
        output, expected = step(values, x[:, time], expected)
        np.testing.assert_allclose(outputs[:, time], output, rtol=1e-3, atol=1e-4)
    for one, other in zip(*map(tf.nest.flatten, (state, expected)), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: v1.nn.dynamic_rnn(rnn.IntersectionRNNCell(4), X, dtype="float32"),
         "set num_in_proj=4"),
        (lambda: rnn.Conv1DLSTMCell(input_shape=[2, 2, 2], output_channels=1, kernel_shape=[1]),
         "conv_ndims=1"),
        (lambda: v1.nn.static_rnn(rnn.CoupledInputForgetGateLSTMCell(2, num_unit_shards=9),
         [tf.constant(X[:, 0])], dtype="float32"), "cannot have 9 shards"),
    ],
)  # fmt: skip
def test_messages(build, message, graph):
    with pytest.raises(ValueError, match=message):
        build()
