"""Cells on towers, and under K-FAC."""

import numpy as np
import pytest
import tensorflow as tf

import kfac
import replicate
from replicate.compat import cells
from replicate.compat.contrib import rnn, seq2seq

v1 = tf.compat.v1
X = np.random.default_rng(0).normal(size=[4, 3, 5]).astype("f4")
LENGTHS = np.array([3, 1, 2, 3])
LABELS = np.array([0, 1, 1, 0])


def recurrent(x, lengths):
    inner = cells.DropoutWrapper(cells.LSTMCell(4, use_peepholes=True), state_keep_prob=1.0)
    cell = cells.MultiRNNCell([inner, cells.GRUCell(3)])
    _, state = v1.nn.dynamic_rnn(cell, x, lengths, dtype=tf.float32)
    return state[1][:, :2]


def attentive(x, lengths):
    outputs, _ = v1.nn.bidirectional_dynamic_rnn(
        cells.BasicLSTMCell(3), rnn.LayerNormBasicLSTMCell(3), x, lengths, dtype=tf.float32
    )
    memory = tf.concat(outputs, 2)
    cell = seq2seq.AttentionWrapper(cells.BasicRNNCell(6), seq2seq.BahdanauAttention(6, memory), 6)
    helper = seq2seq.TrainingHelper(memory, lengths)
    decoder = seq2seq.BasicDecoder(cell, helper, cell.zero_state(tf.shape(x)[0], tf.float32))
    decoded, _, _ = seq2seq.dynamic_decode(decoder)
    return tf.reduce_sum(decoded.rnn_output, 1)[:, :2]


def model_fn(features, labels, mode, params):
    logits = params["network"](features["x"], features["lengths"])
    loss = v1.losses.sparse_softmax_cross_entropy(labels, logits)
    optimizer = replicate.TowerOptimizer(v1.train.GradientDescentOptimizer(0.5))
    train_op = optimizer.minimize(loss, v1.train.get_global_step())
    return replicate.EstimatorSpec(mode, loss=loss, train_op=train_op)


def trained(network, towers):
    """Returns loss and variables after a step that begins with values drawn by position."""
    with tf.Graph().as_default(), v1.Session() as session:
        v1.train.create_global_step()
        on_towers = replicate.replicate_model_fn(model_fn, devices=["/cpu:0"] * towers)
        features = {"x": tf.constant(X), "lengths": tf.constant(LENGTHS)}
        spec = on_towers(features, tf.constant(LABELS), "train", {"network": network})
        session.run(v1.global_variables_initializer())
        draws, variables = np.random.default_rng(1), v1.trainable_variables()
        drawn = {each.initializer.inputs[1]: draws.uniform(-1, 1, each.shape) for each in variables}
        session.run([each.initializer for each in variables], drawn)
        loss, _ = session.run([spec.loss, spec.train_op])
        return loss, session.run({each.op.name: each for each in variables})


@pytest.mark.parametrize(
    ("network", "name"),
    [
        (recurrent, "rnn/multi_rnn_cell/cell_0/lstm_cell/w_f_diag"),
        pytest.param(
            attentive,
            "bidirectional_rnn/bw/layer_norm_basic_lstm_cell/kernel",
            marks=pytest.mark.broad,
        ),
    ],
)
def test_two_towers_do_as_one(network, name):
    one, two = trained(network, 1), trained(network, 2)
    assert list(one[1]) == list(two[1])
    assert name in two[1]
    for found, expected in zip(tf.nest.flatten(two), tf.nest.flatten(one), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("make", "layers"),
    [
        (lambda: cells.LSTMCell(4), {"rnn/lstm_cell/"}),
        (lambda: cells.GRUCell(4), {"rnn/gru_cell/gates/", "rnn/gru_cell/candidate/"}),
    ],
)
def test_kfac_finds_the_kernels_of_an_unrolled_cell(make, layers, graph):
    outputs, _ = v1.nn.static_rnn(make(), tf.unstack(X, axis=1), dtype=tf.float32)
    collection = kfac.LayerCollection()
    collection.register_normal_predictive_distribution(outputs[-1])
    collection.auto_register_layers()
    kinds = {
        tuple(each.op.name for each in tf.nest.flatten(parameters)): type(block).__name__
        for parameters, block in collection.fisher_blocks.items()
    }
    assert kinds == {
        (f"{layer}kernel", f"{layer}bias"): "FullyConnectedMultiIndepFB" for layer in layers
    }
