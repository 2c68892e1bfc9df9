"""A program with cells runs where no Keras can be imported."""

import textwrap

PROGRAM = """
    import numpy as np
    import tensorflow as tf
    from tensorflow.contrib import rnn, seq2seq
    from tensorflow.nn.rnn_cell import GRUCell
    from tensorflow.python.ops import rnn_cell, rnn_cell_impl

    assert GRUCell is rnn.GRUCell is rnn_cell.GRUCell is tf.nn.rnn_cell.GRUCell
    assert issubclass(GRUCell, rnn_cell_impl.LayerRNNCell)
    assert rnn_cell_impl._like_rnncell(GRUCell(2))
    assert {"relu", "rnn_cell"} <= set(dir(tf.nn))
    ids = tf.placeholder(tf.int32, [None, None])
    embedded = tf.nn.embedding_lookup(tf.get_variable("table", [9, 4]), ids)
    cell = tf.nn.rnn_cell.MultiRNNCell(
        [tf.nn.rnn_cell.DropoutWrapper(rnn.LSTMCell(4), 0.9), rnn.GRUCell(4)]
    )
    memory, state = tf.nn.dynamic_rnn(cell, embedded, dtype=tf.float32, swap_memory=True)
    attentive = seq2seq.AttentionWrapper(rnn.GRUCell(4), seq2seq.LuongAttention(4, memory), 4)
    start = attentive.zero_state(tf.shape(ids)[0], tf.float32).clone(cell_state=state[1])
    helper = seq2seq.TrainingHelper(embedded, tf.fill([tf.shape(ids)[0]], tf.shape(ids)[1]))
    outputs, _, _ = seq2seq.dynamic_decode(seq2seq.BasicDecoder(attentive, helper, start))
    rows = tf.reshape(outputs.rnn_output, [-1, 4])
    loss = tf.losses.sparse_softmax_cross_entropy(tf.reshape(ids, [-1]) % 4, rows)
    train = tf.train.AdamOptimizer(0.2).minimize(loss)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        feed = {ids: np.arange(12).reshape(3, 4) % 9}
        losses = [session.run([loss, train], feed)[0] for _ in range(12)]
    assert losses[-1] < 0.5 * losses[0], losses
    print(*(each.name for each in tf.trainable_variables()), sep="\\n")
"""
LAUNCH = """
import sys
sys.modules["tf_keras"] = sys.modules["keras"] = None
from replicate.compat import run
run("program.py")
"""
NAMES = """
table
rnn/multi_rnn_cell/cell_0/lstm_cell/kernel
rnn/multi_rnn_cell/cell_0/lstm_cell/bias
rnn/multi_rnn_cell/cell_1/gru_cell/gates/kernel
rnn/multi_rnn_cell/cell_1/gru_cell/gates/bias
rnn/multi_rnn_cell/cell_1/gru_cell/candidate/kernel
rnn/multi_rnn_cell/cell_1/gru_cell/candidate/bias
memory_layer/kernel
decoder/attention_wrapper/gru_cell/gates/kernel
decoder/attention_wrapper/gru_cell/gates/bias
decoder/attention_wrapper/gru_cell/candidate/kernel
decoder/attention_wrapper/gru_cell/candidate/bias
decoder/attention_wrapper/attention_layer/kernel
"""


def test_cells_run_without_keras(tmp_path, run_python):
    (tmp_path / "program.py").write_text(textwrap.dedent(PROGRAM))
    ended = run_python(LAUNCH, folder=tmp_path, quick=True)
    assert ended.code == 0, ended.err
    assert ended.out.split() == [f"{name}:0" for name in NAMES.split()]
