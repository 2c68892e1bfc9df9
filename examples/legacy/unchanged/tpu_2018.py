"""Classifies images of digits, row by row, with one layer of self-attention.

Runs on a Cloud TPU with --use_tpu, on CPUs and GPUs without. Reads the files of MNIST in
--data_dir, or scikit-learn's digits without one.
"""
from __future__ import absolute_import
from __future__ import division
from __future__ import print_function

import gzip
import os
import re

import numpy as np
import tensorflow as tf

flags = tf.flags
FLAGS = flags.FLAGS

flags.DEFINE_string("data_dir", None, "The directory of MNIST's .gz files.")
flags.DEFINE_string("output_dir", None, "The directory where checkpoints are written.")
flags.DEFINE_string("hparams", "", "Hyperparameters, as name=value with commas between.")
flags.DEFINE_bool("do_train", True, "Whether to run training.")
flags.DEFINE_bool("do_eval", True, "Whether to run evaluation.")
flags.DEFINE_bool("do_predict", False, "Whether to predict the first batch.")
flags.DEFINE_integer("train_batch_size", 64, "Total batch size for training.")
flags.DEFINE_integer("eval_batch_size", 8, "Total batch size for eval.")
flags.DEFINE_integer("predict_batch_size", 8, "Total batch size for predict.")
flags.DEFINE_integer("num_train_steps", 200, "Number of training steps.")
flags.DEFINE_integer("iterations_per_loop", 100, "Steps in each estimator call.")
flags.DEFINE_bool("use_tpu", False, "Whether to use TPU or GPU/CPU.")
flags.DEFINE_string("tpu_name", None, "The Cloud TPU to use for training.")
flags.DEFINE_integer("num_tpu_cores", 8, "Only used if `use_tpu` is True.")


def default_hparams():
    return tf.contrib.training.HParams(
        hidden_size=32,
        num_heads=2,
        initializer_range=0.05,
        hidden_dropout_prob=0.0,
        learning_rate=0.005,
        warmup_proportion=0.1,
        weight_decay_rate=0.01)


class AdamWeightDecayOptimizer(tf.train.Optimizer):
    """Adam with the weight decay decoupled from the gradients."""

    def __init__(self, learning_rate, weight_decay_rate=0.0, beta_1=0.9, beta_2=0.999,
                 epsilon=1e-6, exclude_from_weight_decay=None, name="AdamWeightDecayOptimizer"):
        super(AdamWeightDecayOptimizer, self).__init__(False, name)
        self.learning_rate = learning_rate
        self.weight_decay_rate = weight_decay_rate
        self.beta_1 = beta_1
        self.beta_2 = beta_2
        self.epsilon = epsilon
        self.exclude_from_weight_decay = exclude_from_weight_decay

    def apply_gradients(self, grads_and_vars, global_step=None, name=None):
        assignments = []
        for (grad, param) in grads_and_vars:
            if grad is None or param is None:
                continue
            param_name = re.match("^(.*):\\d+$", param.name).group(1)
            m = tf.get_variable(
                name=param_name + "/adam_m", shape=param.shape.as_list(), dtype=tf.float32,
                trainable=False, initializer=tf.zeros_initializer())
            v = tf.get_variable(
                name=param_name + "/adam_v", shape=param.shape.as_list(), dtype=tf.float32,
                trainable=False, initializer=tf.zeros_initializer())
            next_m = tf.multiply(self.beta_1, m) + tf.multiply(1.0 - self.beta_1, grad)
            next_v = tf.multiply(self.beta_2, v) + tf.multiply(
                1.0 - self.beta_2, tf.square(grad))
            update = next_m / (tf.sqrt(next_v) + self.epsilon)
            if self._do_use_weight_decay(param_name):
                update += self.weight_decay_rate * param
            next_param = param - self.learning_rate * update
            assignments.extend([param.assign(next_param), m.assign(next_m), v.assign(next_v)])
        return tf.group(*assignments, name=name)

    def _do_use_weight_decay(self, param_name):
        return not any(re.search(r, param_name) for r in self.exclude_from_weight_decay or ())


def create_optimizer(loss, hparams, num_train_steps, use_tpu):
    """Creates the operation of one training step."""
    global_step = tf.train.get_or_create_global_step()
    learning_rate = tf.train.polynomial_decay(
        tf.constant(hparams.learning_rate), global_step, num_train_steps, 0.0)
    num_warmup_steps = int(num_train_steps * hparams.warmup_proportion)
    if num_warmup_steps:
        warmup = tf.cast(global_step, tf.float32) / float(num_warmup_steps)
        is_warmup = tf.cast(global_step < num_warmup_steps, tf.float32)
        learning_rate = (1.0 - is_warmup) * learning_rate + (
            is_warmup * hparams.learning_rate * warmup)
    optimizer = AdamWeightDecayOptimizer(
        learning_rate, weight_decay_rate=hparams.weight_decay_rate,
        exclude_from_weight_decay=["LayerNorm", "bias"])
    if use_tpu:
        optimizer = tf.contrib.tpu.CrossShardOptimizer(optimizer)

    tvars = tf.trainable_variables()
    grads = tf.gradients(loss, tvars)
    (grads, _) = tf.clip_by_global_norm(grads, clip_norm=1.0)
    train_op = optimizer.apply_gradients(zip(grads, tvars), global_step=global_step)
    new_global_step = global_step + 1
    return tf.group(train_op, [global_step.assign(new_global_step)])


def layer_norm(input_tensor, name=None):
    return tf.contrib.layers.layer_norm(
        inputs=input_tensor, begin_norm_axis=-1, begin_params_axis=-1, scope=name)


def create_model(rows, hparams, is_training):
    """Returns logits [batch, 10] of images, [batch, height, width]."""
    initializer = tf.truncated_normal_initializer(stddev=hparams.initializer_range)
    length, size = rows.shape[1].value, hparams.hidden_size // hparams.num_heads
    with tf.variable_scope("encoder"):
        net = tf.layers.dense(rows, hparams.hidden_size, kernel_initializer=initializer)
        net += tf.get_variable(
            "position_embeddings", [length, hparams.hidden_size], initializer=initializer)
        net = layer_norm(net, "LayerNorm")
        heads = []
        for head in range(hparams.num_heads):
            with tf.variable_scope("head_%d" % head):
                query, key, value = [
                    tf.layers.dense(net, size, name=name, kernel_initializer=initializer)
                    for name in ("query", "key", "value")]
                scores = tf.matmul(query, key, transpose_b=True) / np.sqrt(size)
                heads.append(tf.matmul(tf.nn.softmax(scores), value))
        attention = tf.concat(heads, axis=-1)
        if is_training and hparams.hidden_dropout_prob:
            attention = tf.nn.dropout(attention, 1.0 - hparams.hidden_dropout_prob)
        net = layer_norm(net + attention, "LayerNorm_1")
    pooled = tf.layers.dense(tf.reshape(net, [-1, length * hparams.hidden_size]), 64, tf.nn.relu,
                             kernel_initializer=initializer, name="pooler")
    return tf.layers.dense(pooled, 10, kernel_initializer=initializer, name="output")


def model_fn_builder(num_train_steps, use_tpu):
    """Returns `model_fn` closure for TPUEstimator."""

    def model_fn(features, labels, mode, params):
        hparams = params["hparams"]
        logits = create_model(
            features["rows"], hparams, is_training=mode == tf.estimator.ModeKeys.TRAIN)
        if mode == tf.estimator.ModeKeys.PREDICT:
            return tf.contrib.tpu.TPUEstimatorSpec(
                mode=mode, predictions={"probabilities": tf.nn.softmax(logits)})

        one_hot_labels = tf.one_hot(labels, depth=10, dtype=tf.float32)
        per_example_loss = -tf.reduce_sum(one_hot_labels * tf.nn.log_softmax(logits), axis=-1)
        loss = tf.reduce_mean(per_example_loss)
        if mode == tf.estimator.ModeKeys.TRAIN:
            train_op = create_optimizer(loss, hparams, num_train_steps, use_tpu)
            return tf.contrib.tpu.TPUEstimatorSpec(mode=mode, loss=loss, train_op=train_op)

        def metric_fn(per_example_loss, label_ids, logits):
            predictions = tf.argmax(logits, axis=-1, output_type=tf.int32)
            return {
                "eval_accuracy": tf.metrics.accuracy(label_ids, predictions),
                "eval_loss": tf.metrics.mean(per_example_loss),
            }

        return tf.contrib.tpu.TPUEstimatorSpec(
            mode=mode, loss=loss, eval_metrics=(metric_fn, [per_example_loss, labels, logits]))

    return model_fn


def load_data(is_training):
    if FLAGS.data_dir:
        part = "train" if is_training else "t10k"
        with gzip.open(os.path.join(FLAGS.data_dir, part + "-images-idx3-ubyte.gz")) as f:
            rows = np.frombuffer(f.read(), np.uint8, offset=16).reshape([-1, 28, 28]) / 255.0
        with gzip.open(os.path.join(FLAGS.data_dir, part + "-labels-idx1-ubyte.gz")) as f:
            labels = np.frombuffer(f.read(), np.uint8, offset=8)
    else:
        from sklearn.datasets import load_digits
        digits = load_digits()
        part = slice(None, 1400) if is_training else slice(1400, None)
        rows, labels = digits.images[part] / 16.0, digits.target[part]
    return rows.astype(np.float32), labels.astype(np.int32)


def input_fn_builder(is_training, drop_remainder):
    """Creates an `input_fn` closure to be passed to TPUEstimator."""
    rows, labels = load_data(is_training)

    def input_fn(params):
        batch_size = params["batch_size"]
        d = tf.data.Dataset.from_tensor_slices(({"rows": rows}, labels))
        if is_training:
            d = d.repeat()
            d = d.shuffle(buffer_size=len(rows), seed=1)
        return d.apply(
            tf.contrib.data.map_and_batch(
                lambda features, label: (features, label),
                batch_size=batch_size,
                drop_remainder=drop_remainder))

    return input_fn


def main(_):
    tf.logging.set_verbosity(tf.logging.INFO)
    hparams = default_hparams().parse(FLAGS.hparams)
    tf.gfile.MakeDirs(FLAGS.output_dir)

    tpu_cluster_resolver = None
    if FLAGS.use_tpu and FLAGS.tpu_name:
        tpu_cluster_resolver = tf.contrib.cluster_resolver.TPUClusterResolver(FLAGS.tpu_name)
    run_config = tf.contrib.tpu.RunConfig(
        cluster=tpu_cluster_resolver,
        model_dir=FLAGS.output_dir,
        save_checkpoints_steps=1000,
        tpu_config=tf.contrib.tpu.TPUConfig(
            iterations_per_loop=FLAGS.iterations_per_loop,
            num_shards=FLAGS.num_tpu_cores,
            per_host_input_for_training=tf.contrib.tpu.InputPipelineConfig.PER_HOST_V2))
    estimator = tf.contrib.tpu.TPUEstimator(
        use_tpu=FLAGS.use_tpu,
        model_fn=model_fn_builder(FLAGS.num_train_steps, FLAGS.use_tpu),
        config=run_config,
        params={"hparams": hparams},
        train_batch_size=FLAGS.train_batch_size,
        eval_batch_size=FLAGS.eval_batch_size,
        predict_batch_size=FLAGS.predict_batch_size)

    if FLAGS.do_train:
        estimator.train(
            input_fn=input_fn_builder(True, drop_remainder=True), max_steps=FLAGS.num_train_steps)
    if FLAGS.do_eval:
        result = estimator.evaluate(input_fn=input_fn_builder(False, drop_remainder=False))
        output_eval_file = os.path.join(FLAGS.output_dir, "eval_results.txt")
        with tf.gfile.GFile(output_eval_file, "w") as writer:
            for key in sorted(result.keys()):
                tf.logging.info("  %s = %s", key, str(result[key]))
                writer.write("%s = %s\n" % (key, str(result[key])))
        print("eval_accuracy = %.3f" % result["eval_accuracy"])
    if FLAGS.do_predict:
        for prediction in estimator.predict(input_fn=input_fn_builder(False, False)):
            print(" ".join("%.3f" % p for p in prediction["probabilities"]))


if __name__ == "__main__":
    flags.mark_flag_as_required("output_dir")
    tf.app.run()
