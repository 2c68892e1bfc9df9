"""Programs of 2017 to 2019 on sequences run as they are: a tagger, a translator, an experiment."""

import re
from importlib.util import find_spec

import numpy as np
import pytest

pytestmark = pytest.mark.skipif(find_spec("tf_keras") is None, reason="needs tf-keras")

TAGGER = '''
"""BiLSTM-CRF: an LSTM over words, and a CRF over tags."""
import functools
import sys

import numpy as np
import tensorflow as tf

FOLDER = sys.argv[1]
SENTENCES = [
    ("john sees paris", "P O L"), ("paris likes john", "L O P"), ("john likes rome", "P O L")]


def generator_fn():
    for words, tags in SENTENCES:
        words = [w.encode() for w in words.strip().split()]
        yield (words, len(words)), [t.encode() for t in tags.strip().split()]


def input_fn(params=None, shuffle_and_repeat=False):
    shapes = (([None], ()), [None])
    types = ((tf.string, tf.int32), tf.string)
    defaults = (("<pad>", 0), "O")
    dataset = tf.data.Dataset.from_generator(
        generator_fn, output_shapes=shapes, output_types=types)
    if shuffle_and_repeat:
        dataset = dataset.shuffle(params["buffer"]).repeat(params["epochs"])
    return dataset.padded_batch(params.get("batch_size", 20), shapes, defaults).prefetch(1)


def model_fn(features, labels, mode, params):
    if isinstance(features, dict):
        features = features["words"], features["nwords"]
    dropout = params["dropout"]
    words, nwords = features
    training = (mode == tf.estimator.ModeKeys.TRAIN)
    vocab_words = tf.contrib.lookup.index_table_from_file(
        params["words"], num_oov_buckets=params["num_oov_buckets"])
    indices = [0, 1, 2]
    num_tags = 3

    word_ids = vocab_words.lookup(words)
    variable = tf.get_variable("embeddings", [20, 8], dtype=tf.float32)
    embeddings = tf.nn.embedding_lookup(variable, word_ids)
    embeddings = tf.layers.dropout(embeddings, rate=dropout, training=training)

    if params["fused"]:
        t = tf.transpose(embeddings, perm=[1, 0, 2])
        lstm_cell_fw = tf.contrib.rnn.LSTMBlockFusedCell(params["lstm_size"])
        lstm_cell_bw = tf.contrib.rnn.LSTMBlockFusedCell(params["lstm_size"])
        lstm_cell_bw = tf.contrib.rnn.TimeReversedFusedRNN(lstm_cell_bw)
        output_fw, _ = lstm_cell_fw(t, dtype=tf.float32, sequence_length=nwords)
        output_bw, _ = lstm_cell_bw(t, dtype=tf.float32, sequence_length=nwords)
        output = tf.concat([output_fw, output_bw], axis=-1)
        output = tf.transpose(output, perm=[1, 0, 2])
    else:
        cells = [tf.contrib.rnn.DropoutWrapper(
            tf.contrib.rnn.LSTMCell(params["lstm_size"], state_is_tuple=True),
            output_keep_prob=1 - dropout) for _ in range(2)]
        output, _ = tf.nn.bidirectional_dynamic_rnn(
            cells[0], cells[1], embeddings, sequence_length=nwords, dtype=tf.float32,
            swap_memory=True)
        output = tf.concat(output, axis=-1)

    logits = tf.layers.dense(output, num_tags)
    crf_params = tf.get_variable("crf", [num_tags, num_tags], dtype=tf.float32)
    pred_ids, _ = tf.contrib.crf.crf_decode(logits, crf_params, nwords)

    if mode == tf.estimator.ModeKeys.PREDICT:
        reverse_vocab_tags = tf.contrib.lookup.index_to_string_table_from_file(params["tags"])
        pred_strings = reverse_vocab_tags.lookup(tf.to_int64(pred_ids))
        return tf.estimator.EstimatorSpec(
            mode, predictions={"pred_ids": pred_ids, "tags": pred_strings})
    vocab_tags = tf.contrib.lookup.index_table_from_file(params["tags"])
    tags = vocab_tags.lookup(labels)
    log_likelihood, _ = tf.contrib.crf.crf_log_likelihood(logits, tags, nwords, crf_params)
    loss = tf.reduce_mean(-log_likelihood)
    weights = tf.sequence_mask(nwords)
    metrics = {"acc": tf.metrics.accuracy(tags, pred_ids, weights)}
    for metric_name, op in metrics.items():
        tf.summary.scalar(metric_name, op[1])
    if mode == tf.estimator.ModeKeys.EVAL:
        return tf.estimator.EstimatorSpec(mode, loss=loss, eval_metric_ops=metrics)
    train_op = tf.contrib.opt.LazyAdamOptimizer(0.1).minimize(
        loss, global_step=tf.train.get_or_create_global_step())
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)


if __name__ == "__main__":
    tf.logging.set_verbosity(tf.logging.WARN)
    for name, lines in (("words", "john paris rome sees likes"), ("tags", "O P L")):
        with tf.gfile.Open("%s/vocab.%s.txt" % (FOLDER, name), "w") as f:
            f.write("\\n".join(lines.split()) + "\\n")
    for fused in (sys.argv[2] == "fused",):
        params = {
            "dropout": 0.1, "num_oov_buckets": 1, "epochs": 15, "batch_size": 3, "buffer": 10,
            "lstm_size": 8, "fused": fused,
            "words": FOLDER + "/vocab.words.txt", "tags": FOLDER + "/vocab.tags.txt",
        }
        train_inpf = functools.partial(input_fn, params, shuffle_and_repeat=True)
        eval_inpf = functools.partial(input_fn, params)
        cfg = tf.estimator.RunConfig(save_checkpoints_steps=20)
        estimator = tf.estimator.Estimator(model_fn, "%s/model%d" % (FOLDER, fused), cfg, params)
        hook = tf.contrib.estimator.stop_if_no_increase_hook(
            estimator, "acc", 500, min_steps=8000, run_every_secs=120)
        train_spec = tf.estimator.TrainSpec(input_fn=train_inpf, hooks=[hook])
        eval_spec = tf.estimator.EvalSpec(input_fn=eval_inpf, throttle_secs=120)
        results, _ = tf.estimator.train_and_evaluate(estimator, train_spec, eval_spec)
        print("acc %.3f" % results["acc"])
        first = next(estimator.predict(eval_inpf))
        print("tags", b" ".join(first["tags"][:3]).decode())
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


def data(seed):
    rng = np.random.RandomState(seed)
    source = rng.randint(2, VOCAB, [64, LENGTH]).astype(np.int32)
    target = np.concatenate([source[:, ::-1], np.full([64, 1], EOS)], 1).astype(np.int32)
    return source, target


def input_fn():
    source, target = data(0)
    dataset = tf.data.Dataset.from_tensor_slices(({"source": source}, target))
    return dataset.repeat().batch(64).make_one_shot_iterator().get_next()


def test_fn():
    return tf.data.Dataset.from_tensor_slices({"source": data(0)[0]}).apply(
        tf.contrib.data.batch_and_drop_remainder(16)).make_one_shot_iterator().get_next()


def single_cell(units):
    return tf.nn.rnn_cell.BasicLSTMCell(units, forget_bias=0.5)


def model_fn(features, labels, mode, params):
    units, beam = params.num_units, params.beam_width
    source = features["source"]
    batch = tf.shape(source)[0]
    lengths = tf.fill([batch], LENGTH)
    embedding = tf.get_variable("embedding", [VOCAB, 8])
    with tf.variable_scope("encoder"):
        cell = rnn.MultiRNNCell([single_cell(units) for _ in range(params.layers)])
        assert isinstance(cell, tf.nn.rnn_cell.RNNCell)
        outputs, state = tf.nn.dynamic_rnn(
            cell, tf.nn.embedding_lookup(embedding, source), lengths, dtype=tf.float32)
        assert isinstance(state[0], tf.contrib.rnn.LSTMStateTuple)
    predicts = mode == tf.estimator.ModeKeys.PREDICT
    if predicts:
        outputs = seq2seq.tile_batch(outputs, multiplier=beam)
        lengths = seq2seq.tile_batch(lengths, multiplier=beam)
        state = seq2seq.tile_batch(state, multiplier=beam)
    with tf.variable_scope("decoder") as scope:
        mechanism = seq2seq.LuongAttention(
            units, outputs, memory_sequence_length=lengths, scale=True)
        cell = rnn.MultiRNNCell([single_cell(units) for _ in range(params.layers)])
        cell = seq2seq.AttentionWrapper(
            cell, mechanism, attention_layer_size=units, alignment_history=False, name="attention")
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
    gradients, variables = zip(*optimizer.compute_gradients(loss))
    gradients, _ = tf.clip_by_global_norm(gradients, 5.0)
    train_op = optimizer.apply_gradients(
        zip(gradients, variables), tf.train.get_or_create_global_step())
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)


def main(_):
    params = tf.contrib.training.HParams(
        num_units=24, layers=2, beam_width=3, learning_rate=0.02)
    estimator = tf.estimator.Estimator(model_fn, sys.argv[1], params=params)
    estimator.train(input_fn, steps=100)
    print("\\n".join("name " + n for n in estimator.get_variable_names() if "Adam" not in n))
    source, target = data(0)
    found = np.array([each["ids"][0][:LENGTH] for each in estimator.predict(test_fn)])
    print("right %.3f of %d" % (np.mean(found == target[:, :LENGTH]), len(found)))


if __name__ == "__main__":
    tf.app.run()
'''

EXPERIMENT = '''
"""Digits with an experiment of tf.contrib.learn, hyperparameters and monitors."""
import tensorflow as tf
from tensorflow.contrib import learn
from tensorflow.contrib.learn.python.learn import learn_runner
from tensorflow.contrib.learn.python.learn.estimators import run_config
from tensorflow.contrib.learn.python.learn.utils import saved_model_export_utils
from tensorflow.examples.tutorials.mnist import input_data
from tensorflow.python.keras.layers import Dense
from tensorflow.python.ops.rnn_cell_impl import LSTMCell, _Linear

tf.flags.DEFINE_string("data_dir", "", "")
tf.flags.DEFINE_string("job_dir", "", "")
tf.flags.DEFINE_string("hparams", "", "")
FLAGS = tf.flags.FLAGS


def model_fn(features, labels, mode, params):
    rows = tf.unstack(tf.reshape(features["x"], [-1, 28, 28]), axis=1)[::7]
    cell = tf.contrib.rnn.LayerNormBasicLSTMCell(params.hidden_units, dropout_keep_prob=0.9)
    outputs, _ = tf.contrib.rnn.static_rnn(cell, rows, dtype=tf.float32)
    with tf.variable_scope("logits"):
        logits = _Linear([outputs[-1]], 10, True)([outputs[-1]])
    predictions = {learn.PredictionKey.CLASSES: tf.argmax(logits, 1)}
    if mode == tf.contrib.learn.ModeKeys.INFER:
        outputs = {"serving_default": tf.estimator.export.PredictOutput(predictions)}
        return tf.estimator.EstimatorSpec(mode, predictions=predictions, export_outputs=outputs)
    loss = tf.losses.sparse_softmax_cross_entropy(labels, logits)
    tf.contrib.deprecated.scalar_summary("loss_of_mine", loss)
    optimizer = tf.train.AdamOptimizer(params.learning_rate)
    train_op = tf.contrib.estimator.clip_gradients_by_norm(optimizer, 1.0).minimize(
        loss, tf.train.get_global_step())
    return tf.estimator.EstimatorSpec(mode, predictions, loss, train_op, {
        "accuracy": tf.metrics.accuracy(labels, predictions["classes"])})


def get_input_fn(data, epochs):
    return tf.estimator.inputs.numpy_input_fn(
        {"x": data.images}, data.labels.astype("int32"), batch_size=32, shuffle=True,
        num_epochs=epochs)


def experiment_fn(run_config, hparams):
    data = input_data.read_data_sets(FLAGS.data_dir, validation_size=64)
    serving = tf.estimator.export.build_parsing_serving_input_receiver_fn(
        {"x": tf.FixedLenFeature([784], tf.float32)})
    return tf.contrib.learn.Experiment(
        estimator=tf.estimator.Estimator(model_fn, config=run_config, params=hparams),
        train_input_fn=get_input_fn(data.train, None),
        eval_input_fn=get_input_fn(data.validation, 1),
        train_steps=hparams.train_steps, eval_steps=None, min_eval_frequency=10,
        export_strategies=[saved_model_export_utils.make_export_strategy(
            serving, default_output_alternative_key=None, exports_to_keep=1)])


def main(_):
    hparams = tf.contrib.training.HParams(hidden_units=4, learning_rate=0.01, train_steps=1)
    hparams.parse(FLAGS.hparams)
    config = run_config.RunConfig(save_checkpoints_steps=10).replace(model_dir=FLAGS.job_dir)
    result, exports = learn_runner.run(
        experiment_fn, run_config=config, schedule="train_and_evaluate", hparams=hparams)
    print("step %d, %d export, %s" % (
        result["global_step"], len(exports), sorted(result)))


if __name__ == "__main__":
    tf.app.run(main)
'''


@pytest.fixture
def run(run_tensorflow1, tmp_path):
    """Returns the output of a program that the runner runs."""

    def run_source(source, *arguments):
        (tmp_path / "program.py").write_text(source)
        return run_tensorflow1(tmp_path, "program.py", *arguments).out

    return run_source


@pytest.mark.parametrize(
    ("kind", "names"),
    [
        ("fused", {"lstm_fused_cell/kernel", "lstm_fused_cell_1/bias"}),
        pytest.param("cells", {"bidirectional_rnn/fw/lstm_cell/kernel"}, marks=pytest.mark.slow),
    ],
)
def test_tagger_with_tables_lstms_and_a_crf(run, kind, names, tmp_path):
    output = run(TAGGER, tmp_path, kind)
    assert "acc 1.000\n" in output, output
    assert "tags P O L\n" in output
    assert {"crf", "dense/kernel", "embeddings", *names} <= set(re.findall("name (.*)", output))


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


def idx(kind, values):
    numbers = [kind, *values.shape]
    return b"".join(number.to_bytes(4, "big") for number in numbers) + values.tobytes()


@pytest.mark.slow
def test_experiment_with_hyperparameters_and_digits(run, tmp_path):
    draws = np.random.default_rng(0)
    for name, count in (("train", 128), ("t10k", 8)):
        images = draws.integers(0, 256, [count, 28, 28]).astype("u1")
        (tmp_path / f"{name}-images-idx3-ubyte").write_bytes(idx(2051, images))
        labels = draws.integers(0, 10, [count]).astype("u1")
        (tmp_path / f"{name}-labels-idx1-ubyte").write_bytes(idx(2049, labels))
    output = run(
        EXPERIMENT,
        f"--data_dir={tmp_path}",
        f"--job_dir={tmp_path / 'job'}",
        "--hparams=train_steps=20,hidden_units=3",
    )
    assert "step 20, 1 export, ['accuracy', 'global_step', 'loss']" in output
    assert len(list((tmp_path / "job" / "export" / "Servo").iterdir())) == 1
