"""Programs of 2017 to 2019 on sequences run as they are: a tagger and a translator."""

import re
from importlib.util import find_spec

import pytest

pytestmark = pytest.mark.skipif(find_spec("tf_keras") is None, reason="needs tf-keras")

TAGGER = '''
"""BiLSTM-CRF: an LSTM over words, and a CRF over tags."""
import sys
import tensorflow as tf

FOLDER = sys.argv[1]
SENTENCES = [
    ("john sees paris", "P O L"), ("paris likes john", "L O P"), ("john likes rome", "P O L")]


def generator_fn():
    for words, tags in SENTENCES:
        words = [w.encode() for w in words.split()]
        yield (words, len(words)), [t.encode() for t in tags.split()]


def input_fn():
    shapes = (([None], ()), [None])
    dataset = tf.data.Dataset.from_generator(
        generator_fn, ((tf.string, tf.int32), tf.string), shapes)
    return dataset.padded_batch(3, shapes, (("<pad>", 0), "O")).prefetch(1)


def model_fn(features, labels, mode, params):
    words, nwords = features
    vocab_words = tf.contrib.lookup.index_table_from_file(
        FOLDER + "/words.txt", num_oov_buckets=params["num_oov_buckets"])
    variable = tf.get_variable("embeddings", [20, 8], dtype=tf.float32)
    embeddings = tf.nn.embedding_lookup(variable, vocab_words.lookup(words))
    t = tf.transpose(embeddings, perm=[1, 0, 2])
    lstm_cell_fw = tf.contrib.rnn.LSTMBlockFusedCell(params["lstm_size"])
    lstm_cell_bw = tf.contrib.rnn.LSTMBlockFusedCell(params["lstm_size"])
    lstm_cell_bw = tf.contrib.rnn.TimeReversedFusedRNN(lstm_cell_bw)
    output_fw, _ = lstm_cell_fw(t, dtype=tf.float32, sequence_length=nwords)
    output_bw, _ = lstm_cell_bw(t, dtype=tf.float32, sequence_length=nwords)
    output = tf.transpose(tf.concat([output_fw, output_bw], axis=-1), perm=[1, 0, 2])
    logits = tf.layers.dense(output, 3)
    crf_params = tf.get_variable("crf", [3, 3], dtype=tf.float32)
    pred_ids, _ = tf.contrib.crf.crf_decode(logits, crf_params, nwords)

    if mode == tf.estimator.ModeKeys.PREDICT:
        reverse_vocab_tags = tf.contrib.lookup.index_to_string_table_from_file(FOLDER + "/tags.txt")
        pred_strings = reverse_vocab_tags.lookup(tf.to_int64(pred_ids))
        return tf.estimator.EstimatorSpec(mode, predictions={"tags": pred_strings})
    vocab_tags = tf.contrib.lookup.index_table_from_file(FOLDER + "/tags.txt")
    tags = vocab_tags.lookup(labels)
    log_likelihood, _ = tf.contrib.crf.crf_log_likelihood(logits, tags, nwords, crf_params)
    loss = tf.reduce_mean(-log_likelihood)
    metrics = {"acc": tf.metrics.accuracy(tags, pred_ids, tf.sequence_mask(nwords))}
    if mode == tf.estimator.ModeKeys.EVAL:
        return tf.estimator.EstimatorSpec(mode, loss=loss, eval_metric_ops=metrics)
    train_op = tf.contrib.opt.LazyAdamOptimizer(0.1).minimize(
        loss, global_step=tf.train.get_or_create_global_step())
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)


if __name__ == "__main__":
    for name, lines in (("words", "john paris rome sees likes"), ("tags", "O P L")):
        with tf.gfile.Open("%s/%s.txt" % (FOLDER, name), "w") as f:
            f.write("\\n".join(lines.split()) + "\\n")
    cfg = tf.estimator.RunConfig(save_checkpoints_steps=20)
    estimator = tf.estimator.Estimator(
        model_fn, FOLDER + "/model", cfg, {"num_oov_buckets": 1, "lstm_size": 8})
    hook = tf.contrib.estimator.stop_if_no_increase_hook(
        estimator, "acc", 500, min_steps=8000, run_every_secs=120)
    train_spec = tf.estimator.TrainSpec(lambda: input_fn().repeat(15), hooks=[hook])
    eval_spec = tf.estimator.EvalSpec(input_fn=input_fn, throttle_secs=120)
    results, _ = tf.estimator.train_and_evaluate(estimator, train_spec, eval_spec)
    print("acc %.3f" % results["acc"])
    print("tags", b" ".join(next(estimator.predict(input_fn))["tags"]).decode())
    print("\\n".join("name " + n for n in estimator.get_variable_names() if "Adam" not in n))
'''

TRANSLATOR = '''
"""Attention seq2seq: learns to reverse short sequences, and decodes with a beam."""
import sys
import numpy as np
import tensorflow as tf
from tensorflow.contrib import rnn, seq2seq
from tensorflow.python.layers.core import Dense

GO, EOS, VOCAB, LENGTH = 0, 1, 6, 3
SOURCE = np.random.RandomState(0).randint(2, VOCAB, [64, LENGTH]).astype(np.int32)
TARGET = np.concatenate([SOURCE[:, ::-1], np.full([64, 1], EOS)], 1).astype(np.int32)


def input_fn():
    dataset = tf.data.Dataset.from_tensor_slices(({"source": SOURCE}, TARGET))
    return dataset.repeat().batch(64).make_one_shot_iterator().get_next()


def test_fn():
    return tf.data.Dataset.from_tensor_slices({"source": SOURCE}).apply(
        tf.contrib.data.batch_and_drop_remainder(16)).make_one_shot_iterator().get_next()


def stack(params):
    return rnn.MultiRNNCell([
        tf.nn.rnn_cell.BasicLSTMCell(params.num_units, forget_bias=0.5)
        for _ in range(params.layers)])


def model_fn(features, labels, mode, params):
    units, beam = params.num_units, params.beam_width
    source = features["source"]
    batch = tf.shape(source)[0]
    lengths = tf.fill([batch], LENGTH)
    embedding = tf.get_variable("embedding", [VOCAB, 8])
    with tf.variable_scope("encoder"):
        cell = stack(params)
        assert isinstance(cell, tf.nn.rnn_cell.RNNCell)
        outputs, state = tf.nn.dynamic_rnn(
            cell, tf.nn.embedding_lookup(embedding, source), lengths, dtype=tf.float32)
        assert isinstance(state[0], tf.contrib.rnn.LSTMStateTuple)
    predicts = mode == tf.estimator.ModeKeys.PREDICT
    if predicts:
        outputs, lengths, state = seq2seq.tile_batch((outputs, lengths, state), multiplier=beam)
    with tf.variable_scope("decoder") as scope:
        mechanism = seq2seq.LuongAttention(
            units, outputs, memory_sequence_length=lengths, scale=True)
        cell = seq2seq.AttentionWrapper(
            stack(params), mechanism, attention_layer_size=units, name="attention")
        size = batch * beam if predicts else batch
        initial = cell.zero_state(size, tf.float32).clone(cell_state=state)
        projection = Dense(VOCAB, use_bias=False, name="output_projection")
        if predicts:
            decoder = seq2seq.BeamSearchDecoder(
                cell=cell, embedding=embedding, start_tokens=tf.fill([batch], GO), end_token=EOS,
                initial_state=initial, beam_width=beam, output_layer=projection,
                length_penalty_weight=0.5)
            decoded, _, _ = seq2seq.dynamic_decode(
                decoder, maximum_iterations=2 * LENGTH, scope=scope)
            return tf.estimator.EstimatorSpec(
                mode, predictions={"ids": tf.transpose(decoded.predicted_ids, [0, 2, 1])})
        inputs = tf.concat([tf.fill([batch, 1], GO), labels[:, :-1]], 1)
        target_lengths = tf.fill([batch], LENGTH + 1)
        helper = seq2seq.TrainingHelper(tf.nn.embedding_lookup(embedding, inputs), target_lengths)
        decoder = seq2seq.BasicDecoder(cell, helper, initial)
        decoded, _, _ = seq2seq.dynamic_decode(decoder, swap_memory=True, scope=scope)
        logits = projection(decoded.rnn_output)
    loss = seq2seq.sequence_loss(logits, labels, tf.sequence_mask(target_lengths, dtype=tf.float32))
    optimizer = tf.train.AdamOptimizer(params.learning_rate)
    train_op = optimizer.minimize(loss, tf.train.get_or_create_global_step())
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)


def main(_):
    params = tf.contrib.training.HParams(
        num_units=24, layers=2, beam_width=3, learning_rate=0.02)
    estimator = tf.estimator.Estimator(model_fn, sys.argv[1], params=params)
    estimator.train(input_fn, steps=100)
    print("\\n".join("name " + n for n in estimator.get_variable_names() if "Adam" not in n))
    found = np.array([each["ids"][0][:LENGTH] for each in estimator.predict(test_fn)])
    print("right %.3f of %d" % (np.mean(found == TARGET[:, :LENGTH]), len(found)))


if __name__ == "__main__":
    tf.app.run()
'''


@pytest.fixture
def run(run_tensorflow1, tmp_path):
    """Returns the output of a program that the runner runs."""

    def run_source(source, *arguments):
        (tmp_path / "program.py").write_text(source)
        return run_tensorflow1(tmp_path, "program.py", *arguments).out

    return run_source


@pytest.mark.broad  # The tests of lookup, rnn, crf and opt check its parts.
def test_tagger_with_tables_lstms_and_a_crf(run, tmp_path):
    output = run(TAGGER, tmp_path)
    assert "acc 1.000\n" in output, output
    assert "tags P O L\n" in output
    names = {
        "crf",
        "dense/kernel",
        "embeddings",
        "lstm_fused_cell/kernel",
        "lstm_fused_cell_1/bias",
    }
    assert names <= set(re.findall("name (.*)", output))


@pytest.mark.slow  # The tests of seq2seq check its parts.
def test_translator_with_attention_and_a_beam(run, tmp_path):
    output = run(TRANSLATOR, tmp_path / "model")
    names = set(re.findall("name (.*)", output))
    assert {
        "decoder/attention/attention_layer/kernel",
        "decoder/attention/luong_attention/attention_g",
        "decoder/attention/multi_rnn_cell/cell_1/basic_lstm_cell/bias",
        "decoder/memory_layer/kernel",
        "decoder/output_projection/kernel",
        "encoder/rnn/multi_rnn_cell/cell_0/basic_lstm_cell/kernel",
    } <= names, output
    right, count = re.search(r"right ([\d.]+) of (\d+)", output).groups()
    assert int(count) == 64
    assert float(right) > 0.9
