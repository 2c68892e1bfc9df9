"""Cells of tf.nn.rnn_cell against NumPy, with the names that TensorFlow 1 gave their variables."""

import copy

import numpy as np
import pytest
import tensorflow as tf

from replicate.compat import cells

v1 = tf.compat.v1
BATCH, TIMES, WIDTH, UNITS = 2, 3, 4, 5
X = np.random.default_rng(0).normal(size=[BATCH, TIMES, WIDTH]).astype("f4")
LENGTHS = np.array([3, 1])
ONE = tf.TensorShape([])


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def affine(w, scope, *inputs):
    return np.concatenate(inputs, 1) @ w[f"{scope}/kernel"] + w[f"{scope}/bias"]


def simple(w, x, h):
    h = np.tanh(affine(w, "rnn/basic_rnn_cell", x, h))
    return h, h


def gru(w, x, h):
    gates = sigmoid(affine(w, "rnn/gru_cell/gates", x, h))
    reset, update = np.split(gates, 2, 1)
    new = np.tanh(affine(w, "rnn/gru_cell/candidate", x, reset * h))
    h = update * h + (1 - update) * new
    return h, h


def basic_lstm(w, x, state, scope="rnn/basic_lstm_cell"):
    c, h = state
    add, new, forget, output = np.split(affine(w, scope, x, h), 4, 1)
    c = c * sigmoid(forget + 1) + sigmoid(add) * np.tanh(new)
    h = sigmoid(output) * np.tanh(c)
    return h, (c, h)


def lstm(w, x, state):
    """With peepholes, a clipped cell, and clipped projections."""
    c, h = state
    add, new, forget, output = np.split(affine(w, "rnn/lstm_cell", x, h), 4, 1)
    seen = {gate: w[f"rnn/lstm_cell/w_{gate}_diag"] for gate in "fio"}
    kept = c * sigmoid(forget + 0.5 + seen["f"] * c)
    c = np.clip(kept + sigmoid(add + seen["i"] * c) * np.tanh(new), -0.3, 0.3)
    h = sigmoid(output + seen["o"] * c) * np.tanh(c)
    h = np.clip(h @ w["rnn/lstm_cell/projection/kernel"], -0.2, 0.2)
    return h, (c, h)


def stacked(w, x, states):
    first, state = basic_lstm(w, x, states[0], "rnn/multi_rnn_cell/cell_0/basic_lstm_cell")
    second, other = basic_lstm(w, first, states[1], "rnn/multi_rnn_cell/cell_1/basic_lstm_cell")
    return second, (state, other)


CASES = {
    "simple": (lambda: cells.BasicRNNCell(UNITS), simple, ["basic_rnn_cell/kernel", ".../bias"]),
    "gru": (
        lambda: cells.GRUCell(UNITS),
        gru,
        ["gru_cell/gates/kernel", ".../bias", "gru_cell/candidate/kernel", ".../bias"],
    ),
    "basic_lstm": (
        lambda: cells.BasicLSTMCell(UNITS),
        basic_lstm,
        ["basic_lstm_cell/kernel", ".../bias"],
    ),
    "lstm": (
        lambda: cells.LSTMCell(
            UNITS, use_peepholes=True, cell_clip=0.3, num_proj=2, proj_clip=0.2, forget_bias=0.5
        ),
        lstm,
        [
            "lstm_cell/kernel",
            ".../bias",
            ".../w_f_diag",
            ".../w_i_diag",
            ".../w_o_diag",
            "lstm_cell/projection/kernel",
        ],
    ),
    "stacked": (
        lambda: cells.MultiRNNCell([cells.BasicLSTMCell(3), cells.BasicLSTMCell(2)]),
        stacked,
        [
            "multi_rnn_cell/cell_0/basic_lstm_cell/kernel",
            ".../bias",
            "multi_rnn_cell/cell_1/basic_lstm_cell/kernel",
            ".../bias",
        ],
    ),
}


def full_names(names):
    """Puts the scope of the name before in the place of "..."."""
    full = []
    for name in names:
        full.append(f"rnn/{name}".replace("rnn/...", full[-1].rpartition("/")[0] if full else ""))
    return full


@pytest.mark.parametrize("case", CASES)
def test_cells_are_those_of_numpy(case, run_drawn, request):
    make, step, names = CASES[case]
    if case == "gru":
        request.getfixturevalue("old_control_flow")
    sizes = make().state_size
    (outputs, state), w = run_drawn(lambda: v1.nn.dynamic_rnn(make(), X, LENGTHS, dtype=tf.float32))
    assert list(w) == full_names(names)
    expected = tf.nest.map_structure(lambda size: np.zeros([BATCH, size]), sizes)
    for time in range(TIMES):
        inside = time < LENGTHS[:, None]
        output, new = step(w, X[:, time], expected)
        new = tf.nest.pack_sequence_as(expected, tf.nest.flatten(new))
        expected = tf.nest.map_structure(lambda a, b: np.where(inside, a, b), new, expected)  # noqa: B023
        np.testing.assert_allclose(outputs[:, time], np.where(inside, output, 0), atol=1e-5)
    tf.nest.assert_same_structure(state, sizes)
    for one, other in zip(*map(tf.nest.flatten, (state, expected)), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-5)


def names():
    return [each.op.name for each in v1.global_variables()]


def call(cell, scope=None):
    return cell(tf.constant(X[:, 0]), cell.zero_state(BATCH, tf.float32), scope=scope)


def test_scopes_of_loops_and_of_calls(graph):
    v1.nn.bidirectional_dynamic_rnn(
        cells.GRUCell(3), cells.BasicRNNCell(2), X, dtype=tf.float32, scope="encoder"
    )
    assert {name.rpartition("/")[0] for name in names()} == {
        "encoder/fw/gru_cell/gates", "encoder/fw/gru_cell/candidate", "encoder/bw/basic_rnn_cell",
    }  # fmt: skip
    one, other = cells.BasicRNNCell(2), cells.BasicRNNCell(2, name="mine")
    call(one), call(one), call(cells.BasicRNNCell(2)), call(other, "given")
    assert names()[6::2] == [
        "basic_rnn_cell/kernel", "basic_rnn_cell_1/kernel", "given/kernel",
    ]  # fmt: skip
    assert [each.op.name for each in one.trainable_weights] == names()[6:8]
    saver = call(cells.MultiRNNCell([one, cells.LSTMCell(2, state_is_tuple=True)]))
    assert names()[12:] == [
        "multi_rnn_cell/cell_1/lstm_cell/kernel", "multi_rnn_cell/cell_1/lstm_cell/bias",
    ]  # fmt: skip
    assert isinstance(saver[1][1], cells.LSTMStateTuple)


def test_reuse_getters_partitioners_and_types(graph):
    seen = []

    def note(getter, *args, **kwargs):
        seen.append(args[0] if args else kwargs["name"])
        return getter(*args, **kwargs)

    with v1.variable_scope("a", custom_getter=note):
        call(cells.BasicLSTMCell(2, name="cell"))
    with v1.variable_scope("a", reuse=v1.AUTO_REUSE):
        call(cells.BasicLSTMCell(2, name="cell"))
    with v1.variable_scope("a"):
        call(cells.BasicLSTMCell(2, name="cell", reuse=True))
        with pytest.raises(ValueError, match="already exists"):
            call(cells.BasicLSTMCell(2), "cell")
    assert seen == names() == ["a/cell/kernel", "a/cell/bias"]
    with v1.variable_scope("b", partitioner=v1.fixed_size_partitioner(2)):
        call(cells.LSTMCell(2, num_unit_shards=3))
    assert names()[2:] == [
        *(f"b/lstm_cell/kernel/part_{part}" for part in range(3)),
        *(f"b/lstm_cell/bias/part_{part}" for part in range(2)),
    ]
    wide = cells.GRUCell(2)
    wide(tf.constant(X[:, 0], tf.float64), wide.zero_state(BATCH, tf.float64))
    assert {each.dtype.base_dtype for each in wide.weights} == {tf.float64}


@pytest.mark.parametrize("make", [lambda: cells.GRUCell(2), lambda: Own(2)])
def test_getters_decide_what_is_trained(make, graph):
    def fixed(getter, *args, **kwargs):
        return getter(*args, **{**kwargs, "trainable": False})

    cell = make()
    with v1.variable_scope("frozen", custom_getter=fixed):
        call(cell)
    assert not v1.trainable_variables()
    assert not cell.trainable_variables
    assert cell.non_trainable_variables == v1.global_variables()


def test_values_at_first(graph, evaluate):
    v1.get_variable_scope().set_initializer(v1.constant_initializer(7.0))
    call(cells.GRUCell(1))
    call(cells.LSTMCell(1, initializer="zeros"))
    call(cells.GRUCell(1, kernel_initializer="ones", bias_initializer=v1.zeros_initializer()))
    found = evaluate([each[..., 0] for each in v1.global_variables()])
    assert [np.unique(each).tolist() for each in found] == [
        [7], [1], [7], [0], [0], [0], [1], [0], [1], [0],
    ]  # fmt: skip


class Own(cells.RNNCell):
    """A cell as programs write it."""

    def __init__(self, units, inner=None):
        super().__init__()
        self._num_units = units
        self.inner = inner

    @property
    def state_size(self):
        return self._num_units

    @property
    def output_size(self):
        return self._num_units

    def call(self, inputs, state):
        with v1.variable_scope("gate"):
            rows = inputs.shape.as_list()[1] + self._num_units
            weights = v1.get_variable("weights", [rows, self._num_units])
            v1.get_variable("count", [], trainable=False)
        state = tf.tanh(tf.matmul(tf.concat([inputs, state], 1), weights))
        return (state, state) if self.inner is None else self.inner(state, state)


class Built(Own):
    def build(self, inputs_shape):
        self.w = self.add_variable("w", [inputs_shape[1], self._num_units])
        self.built = True

    def call(self, inputs, state):
        state = tf.matmul(inputs, self.w) + state
        return state, state


class Old(Own):
    """A cell of TensorFlow 0.12: it calls no other constructor."""

    def __init__(self, units):
        self._num_units = units

    def __call__(self, inputs, state, scope=None):
        with v1.variable_scope(scope or type(self).__name__):
            return state + v1.get_variable("b", []), state


def test_cells_of_programs(graph, evaluate):
    cell = cells.MultiRNNCell(
        [Own(5, cells.GRUCell(5)), Built(4), cells.DropoutWrapper(Old(4), output_keep_prob=0.5)]
    )
    outputs, _ = v1.nn.dynamic_rnn(cell, X, LENGTHS, dtype=tf.float32)
    own = "rnn/multi_rnn_cell/cell_0/own"
    assert names() == [
        f"{own}/gate/weights",
        f"{own}/gate/count",
        *(f"{own}/gru_cell/{name}" for name in (
            "gates/kernel", "gates/bias", "candidate/kernel", "candidate/bias"
        )),
        "rnn/multi_rnn_cell/cell_1/built/w",
        "rnn/multi_rnn_cell/cell_2/Old/b",
    ]  # fmt: skip
    assert [each.op.name for each in cell.trainable_weights] == [
        name for name in names() if "count" not in name and "Old" not in name
    ]
    assert [each.op.name for each in cell.non_trainable_weights] == [f"{own}/gate/count"]
    assert evaluate(outputs).shape == (BATCH, TIMES, 4)
    one = copy.deepcopy(Built(3))
    call(one), call(one)
    assert names()[8:] == ["built/w"]


class States:
    """A queue of states, as `tf.contrib.training.batch_sequences_with_states` makes it."""

    def __init__(self):
        self.saved = {}

    def state(self, name):
        return tf.ones([BATCH, 3])

    def save_state(self, name, value):
        self.saved[name] = value
        return tf.no_op()


def test_other_loops_of_tensorflow(graph, evaluate):
    cell, steps, states = cells.LSTMCell(3), tf.unstack(X, axis=1), States()
    kept = v1.nn.static_state_saving_rnn(cell, steps, states, ("c", "h"))
    assert sorted(states.saved) == ["c", "h"]
    begin = cells.LSTMStateTuple(*[tf.ones([BATCH, 3])] * 2)
    plain = v1.nn.static_rnn(cell, steps, begin)
    major = v1.nn.dynamic_rnn(
        cell, tf.constant(X.swapaxes(0, 1)), None, begin, time_major=True, parallel_iterations=1,
        swap_memory=True,
    )  # fmt: skip

    def loop(time, output, state, _):
        inputs = tf.gather(X.swapaxes(0, 1), tf.minimum(time, TIMES - 1))
        ends = tf.fill([BATCH], time >= TIMES)
        return ends, inputs, begin if output is None else state, output, None

    array, last, _ = v1.nn.raw_rnn(cell, loop, scope="rnn")
    pairs = v1.nn.static_bidirectional_rnn(
        cells.GRUCell(1), cells.GRUCell(2), steps, dtype=tf.float32
    )
    assert {name.partition("/")[0] for name in names()} == {"rnn", "bidirectional_rnn"}
    assert len(names()) == 10
    found = evaluate([tf.stack(kept[0]), tf.stack(plain[0]), major[0], array.stack(), pairs[0][0]])
    for each in found[1:4]:
        np.testing.assert_allclose(each, found[0], atol=1e-6)
    assert found[4].shape == (BATCH, 3)
    ends = evaluate([plain[1], last], None)
    np.testing.assert_allclose(ends[1], ends[0], atol=0.5)


def test_zero_states(graph, evaluate):
    def shapes(cell, batch=BATCH):
        state = cell.zero_state(batch, tf.float64)
        assert {each.dtype for each in tf.nest.flatten(state)} == {tf.float64}
        return tf.nest.map_structure(lambda each: tuple(each.shape.as_list()), state)

    pair = cells.MultiRNNCell([cells.LSTMCell(5, num_proj=2), cells.GRUCell(3)])
    assert shapes(pair) == (((2, 5), (2, 2)), (2, 3))
    assert shapes(cells.ResidualWrapper(pair), v1.placeholder(tf.int32, [])) == (
        ((None, 5), (None, 2)), (None, 3),
    )  # fmt: skip
    joined = [cells.BasicLSTMCell(5, state_is_tuple=False), cells.GRUCell(3)]
    assert shapes(cells.MultiRNNCell(joined, state_is_tuple=False)) == (2, 13)
    first = pair.get_initial_state(v1.placeholder_with_default(X[:, 0], [None, WIDTH]))
    assert evaluate(first[1]).tolist() == [[0] * 3] * 2
    assert graph.get_operations()[0].name.startswith("MultiRNNCellZeroState/LSTMCellZeroState/")
    assert cells.LSTMStateTuple(tf.ones(1), tf.ones(1)).dtype == tf.float32


def test_variational_dropout_drops_the_same_at_all_times(graph, evaluate):
    v1.get_variable_scope().set_initializer(v1.ones_initializer())
    cell = cells.DropoutWrapper(
        cells.BasicRNNCell(50, tf.identity), 1.0, 0.5, 1.0, True, dtype=tf.float32, seed=1
    )
    outputs, _ = v1.nn.static_rnn(cell, [tf.ones([2, 3])] * 3, dtype=tf.float32)
    dropped = evaluate(tf.stack(outputs)) == 0
    assert 0.3 < dropped.mean() < 0.7
    assert np.all(dropped == dropped[0, 0])
    state = cell.zero_state(BATCH, tf.float32)
    copied = copy.deepcopy(cell)(tf.ones([BATCH, 3]), state)[0]
    np.testing.assert_array_equal(evaluate(copied) == 0, dropped[0])
    keep = v1.placeholder_with_default(1.0, [])
    same, _ = call(cells.DropoutWrapper(cells.GRUCell(9), keep, keep, keep, seed=1))
    assert np.all(evaluate(same) != 0)
    assert 0 < np.mean(evaluate(same, {keep: 0.5}) == 0) < 1


drop = cells.DropoutWrapper


@pytest.mark.parametrize(
    ("build", "error", "message"),
    [
        (lambda: cells.MultiRNNCell(cells.GRUCell(2)), TypeError, "takes a list of cells"),
        (lambda: cells.MultiRNNCell([]), ValueError, "one or more cells"),
        (lambda: cells.MultiRNNCell([3]), TypeError, "MultiRNNCell takes a cell, got 3"),
        (lambda: cells.MultiRNNCell([cells.LSTMCell(2)], state_is_tuple=False), ValueError,
         "cells whose states are tuples"),
        (lambda: cells.MultiRNNCell([cells.GRUCell(2)])(tf.ones([1, 1]), (1, 2)), ValueError,
         "a state of as many parts"),
        (lambda: cells.ResidualWrapper(3), TypeError, "ResidualWrapper takes a cell, got 3"),
        (lambda: call(cells.ResidualWrapper(cells.GRUCell(3))), ValueError, "must have one shape"),
        (lambda: drop(cells.GRUCell(2), 1.5), ValueError, "input_keep_prob=1.5"),
        (lambda: drop(cells.GRUCell(2), variational_recurrent=True), ValueError, "needs dtype"),
        (lambda: drop(cells.GRUCell(2), 0.5, variational_recurrent=True, dtype="float32"),
         ValueError, "needs input_size"),
        (lambda: drop(cells.GRUCell(2), dropout_state_filter_visitor=3), TypeError,
         "must be a function, got 3"),
        (lambda: call(drop(cells.GRUCell(2), state_keep_prob=0.5,
         dropout_state_filter_visitor=lambda _: "no")), TypeError, "gave 'no'"),
        (lambda: cells.GRUCell(2, activation="none"), ValueError, "no activation 'none'"),
        (lambda: cells.LSTMCell(2)(tf.ones([1, 1]), tf.ones([1, 4])), ValueError, r"state \(c, h"),
        (lambda: v1.nn.dynamic_rnn(cells.GRUCell(2), v1.placeholder("float", [1, 2, None]),
         dtype="float32"), ValueError, "must be accessible"),
        (lambda: cells.GRUCell(2).get_initial_state(), ValueError, "needs inputs, or batch_size"),
        (lambda: cells.GRUCell(2).get_initial_state(X[:, 0], 3), ValueError,
         "batch_size=3, but the inputs have 2"),
        (lambda: cells.GRUCell(2).get_initial_state(X[:, 0], dtype="int32"), ValueError,
         "dtype=int32"),
        (lambda: cells.RNNCell().state_size, NotImplementedError, "property state_size"),
        (lambda: cells.RNNCell().output_size, NotImplementedError, "property output_size"),
        (lambda: cells.assert_like_rnncell("cell", 3), TypeError, "argument cell must be a cell"),
        (lambda: cells.LSTMStateTuple(tf.ones(1), tf.ones(1, "int32")).dtype, TypeError, "int32"),
    ],
)  # fmt: skip
def test_messages(build, error, message, graph):
    with pytest.raises(error, match=message):
        build()
