"""Outputs, states, gradients and variables are those of the cells that tf-keras kept."""

import importlib
import warnings
import zlib

import numpy as np
import pytest
import tensorflow as tf

from replicate.compat import cells

pytest.importorskip("tf_keras", reason="compares with the cells of tf-keras")

v1 = tf.compat.v1
X = np.random.RandomState(0).randn(3, 4, 5).astype("f4")
LENGTHS = [4, 2, 0]


def dynamic(cell, make):
    return v1.nn.dynamic_rnn(cell, X, LENGTHS, dtype=tf.float32)


def both_ways(cell, make):
    return v1.nn.bidirectional_dynamic_rnn(cell, make(), X, LENGTHS, dtype=tf.float32)


def static(cell, make):
    return v1.nn.static_rnn(cell, tf.unstack(X, axis=1), dtype=tf.float32, scope="here")


def twice(cell, make):
    """Calls a cell in a scope with an initializer, a regularizer and a partitioner."""
    with v1.variable_scope(
        "out",
        initializer=v1.random_uniform_initializer(-1, 1),
        regularizer=tf.nn.l2_loss,
        partitioner=v1.fixed_size_partitioner(2),
    ):
        _, state = cell(tf.constant(X[:, 0]), cell.zero_state(3, tf.float32))
        return cell(tf.constant(X[:, 1]), state)


CASES = {
    "simple": (dynamic, lambda m: m.BasicRNNCell(6, activation="relu")),
    "gru": (both_ways, lambda m: m.GRUCell(6, kernel_initializer="orthogonal", name="mine")),
    "basic_lstm": (dynamic, lambda m: m.BasicLSTMCell(6, 0.5, state_is_tuple=False)),
    "relu_lstm": (twice, lambda m: m.BasicLSTMCell(6, activation=tf.nn.relu)),
    "lstm": (both_ways, lambda m: m.LSTMCell(6)),
    "all_lstm": (dynamic, lambda m: m.LSTMCell(6, True, 0.2, None, 3, 0.1, 2, 3, 0.5)),
    "joined_lstm": (
        dynamic,
        lambda m: m.LSTMCell(
            6, num_proj=3, state_is_tuple=False, initializer=v1.ones_initializer()
        ),
    ),
    "multi": (
        both_ways,
        lambda m: m.MultiRNNCell([m.GRUCell(6), m.BasicLSTMCell(5), m.LSTMCell(4)]),
    ),
    "joined_multi": (
        dynamic,
        lambda m: m.MultiRNNCell([m.GRUCell(6), m.BasicRNNCell(5)], state_is_tuple=False),
    ),
    "one_cell_twice": (twice, lambda m: m.MultiRNNCell([m.GRUCell(5)] * 2)),
    "residual": (dynamic, lambda m: m.ResidualWrapper(m.DeviceWrapper(m.GRUCell(5), "/cpu:0"))),
    "dropout": (static, lambda m: m.DropoutWrapper(stack(m), 0.7, 0.6, 0.5, seed=7)),
    "variational": (
        static,
        lambda m: m.DropoutWrapper(stack(m), 0.7, 0.6, 0.5, True, 5, tf.float32, 7),
    ),
    "visited": (
        static,
        lambda m: m.DropoutWrapper(
            stack(m), state_keep_prob=0.5, seed=3, dropout_state_filter_visitor=not_the_first
        ),
    ),
}


def stack(module):
    return module.MultiRNNCell([module.LSTMCell(6), module.GRUCell(4)])


def not_the_first(state):
    return (False, True) if isinstance(state, tuple) and len(state) == 2 else True


def set_all(session, variables, values):
    """Gives variables their values in one step."""
    first = [each.initializer.inputs[1] for each in variables]
    session.run([each.initializer for each in variables], dict(zip(first, values, strict=True)))


def result_of(module, case):
    """Returns names and shapes of variables, collections, and all that is computed."""
    unroll, make = CASES[case]
    with tf.Graph().as_default(), v1.Session() as session:
        v1.set_random_seed(3)
        outcome = tf.nest.flatten(unroll(make(module), lambda: make(module)))
        variables = v1.global_variables()
        losses = v1.get_collection(v1.GraphKeys.REGULARIZATION_LOSSES)
        gradients = tf.gradients([tf.reduce_sum(each**2) for each in outcome], variables)
        session.run(v1.global_variables_initializer())
        starts = session.run({each.name: each for each in variables if "bias" in each.name})
        drawn = [np.random.RandomState(zlib.crc32(each.name.encode())) for each in variables]
        values = [draws.uniform(-1, 1, v.shape) for draws, v in zip(drawn, variables, strict=True)]
        set_all(session, variables, values)
        return (
            [(each.name, each.shape.as_list(), each.trainable) for each in variables],
            starts,
            [each.name for each in losses],
            session.run([outcome, gradients, losses]),
        )


ALWAYS = ("all_lstm", "joined_multi", "visited")
WITH_OLD_LOOPS = ("lstm", "multi", "joined_lstm")


@pytest.mark.parametrize(
    "case",
    [case if case in ALWAYS else pytest.param(case, marks=pytest.mark.broad) for case in CASES],
)
def test_same_as_tf_keras(case, request):
    if case in WITH_OLD_LOOPS:
        request.getfixturevalue("old_control_flow")
    theirs = importlib.import_module("tf_keras.api._v1.keras.__internal__.legacy.rnn_cell")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # It warns of its own deprecation.
        expected = result_of(theirs, case)
    found = result_of(cells, case)
    assert found[0] == expected[0]
    assert found[2] == expected[2]
    for one, other in zip(*map(tf.nest.flatten, (found[1::2], expected[1::2])), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6, atol=1e-6)
