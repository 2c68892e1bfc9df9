"""A program of 2017 to 2019 on sequences runs as it is."""

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


@pytest.mark.broad  # The tests of lookup, rnn, crf and opt check its parts.
def test_tagger_with_tables_lstms_and_a_crf(run_tensorflow1, tmp_path):
    (tmp_path / "program.py").write_text(TAGGER)
    output = run_tensorflow1(tmp_path, "program.py", tmp_path).out
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
