"""Stacks of bidirectional layers are loops of those of tf.nn."""

import numpy as np
import pytest
import tensorflow as tf

pytest.importorskip("tf_keras")

from replicate.compat.contrib import rnn

v1 = tf.compat.v1
X = np.random.default_rng(0).normal(size=[2, 4, 3]).astype("f4")
LENGTHS = np.array([4, 2])


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
def test_stack_is_a_loop(static):
    with tf.Graph().as_default(), v1.Session() as session:
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


@pytest.mark.parametrize(
    ("forward", "backward", "message"),
    [([], [], "one or more cells"), ([1, 2], [1], "2 forward cells, 1 backward")],
)
def test_messages(forward, backward, message):
    with pytest.raises(ValueError, match=message):
        rnn.stack_bidirectional_dynamic_rnn(forward, backward, X)
