"""Trains a wide and deep classifier of digits on all GPUs of a machine.

Reads the files of MNIST in --data_dir, or scikit-learn's digits without one.
"""
from __future__ import absolute_import
from __future__ import division
from __future__ import print_function

import gzip
import os

from absl import app as absl_app
from absl import flags
import numpy as np
import tensorflow as tf

FLAGS = flags.FLAGS

flags.DEFINE_string("data_dir", None, "Directory of MNIST's .gz files.")
flags.DEFINE_string("model_dir", "/tmp/distribute_2019", "Directory of the model.")
flags.DEFINE_string("export_dir", None, "Directory that the model is exported to.")
flags.DEFINE_integer("batch_size", 64, "Examples of a batch, for all GPUs together.")
flags.DEFINE_integer("train_steps", 200, "Number of training steps.")
flags.DEFINE_integer("num_gpus", 0, "GPUs to train on; 0 takes what the machine has.")

SIDE = 4


def blocks_of(images):
    """Returns the mean brightness of SIDE x SIDE blocks, and of the whole image."""
    count, height, width = images.shape
    images = images[:, :height // SIDE * SIDE, :width // SIDE * SIDE]
    blocks = images.reshape([count, SIDE, height // SIDE, SIDE, width // SIDE]).mean(axis=(2, 4))
    features = {"block_%d_%d" % (y, x): blocks[:, y, x] for y in range(SIDE) for x in range(SIDE)}
    features["ink"] = images.mean(axis=(1, 2))
    features["tilt"] = np.where(blocks[:, 0, -1] > blocks[:, 0, 0], "right", "left")
    return features


def load_data(is_training):
    if FLAGS.data_dir:
        part = "train" if is_training else "t10k"
        with gzip.open(os.path.join(FLAGS.data_dir, part + "-images-idx3-ubyte.gz")) as f:
            images = np.frombuffer(f.read(), np.uint8, offset=16).reshape([-1, 28, 28]) / 255.0
        with gzip.open(os.path.join(FLAGS.data_dir, part + "-labels-idx1-ubyte.gz")) as f:
            labels = np.frombuffer(f.read(), np.uint8, offset=8)
    else:
        from sklearn.datasets import load_digits
        digits = load_digits()
        part = slice(None, 1400) if is_training else slice(1400, None)
        images, labels = digits.images[part] / 16.0, digits.target[part]
    return blocks_of(images.astype(np.float32)), labels.astype(np.int64)


def build_columns():
    """Returns the wide and the deep feature columns."""
    pixels = [
        tf.feature_column.numeric_column("block_%d_%d" % (y, x))
        for y in range(SIDE) for x in range(SIDE)
    ]
    ink = tf.feature_column.bucketized_column(
        tf.feature_column.numeric_column("ink"), [0.1 * i for i in range(1, 6)])
    tilt = tf.feature_column.categorical_column_with_vocabulary_list("tilt", ["left", "right"])
    crossed = tf.feature_column.crossed_column([ink, "tilt"], hash_bucket_size=20)
    wide = [ink, tilt, crossed]
    deep = pixels + [
        tf.feature_column.indicator_column(tilt),
        tf.feature_column.embedding_column(crossed, dimension=4),
    ]
    return wide, deep


def make_input_fn(is_training, batch_size):
    def input_fn():
        features, labels = load_data(is_training)
        dataset = tf.data.Dataset.from_tensor_slices((features, labels))
        if is_training:
            dataset = dataset.shuffle(len(labels), seed=1).repeat()
        return dataset.batch(batch_size).prefetch(1)
    return input_fn


def get_distribution_strategy(num_gpus):
    if num_gpus:
        return tf.contrib.distribute.MirroredStrategy(num_gpus=num_gpus)
    return tf.distribute.MirroredStrategy()


def main(_):
    tf.logging.set_verbosity(tf.logging.INFO)
    strategy = get_distribution_strategy(FLAGS.num_gpus)
    run_config = tf.estimator.RunConfig(
        model_dir=FLAGS.model_dir,
        train_distribute=strategy,
        save_checkpoints_steps=100,
        session_config=tf.ConfigProto(allow_soft_placement=True))
    wide, deep = build_columns()
    classifier = tf.estimator.DNNLinearCombinedClassifier(
        linear_feature_columns=wide,
        dnn_feature_columns=deep,
        dnn_hidden_units=[64, 32],
        n_classes=10,
        linear_optimizer=tf.train.FtrlOptimizer(0.002),
        dnn_optimizer=tf.train.AdagradOptimizer(0.02),
        config=run_config)

    per_replica_batch_size = FLAGS.batch_size // strategy.num_replicas_in_sync
    exporter = tf.estimator.FinalExporter(
        "wide_and_deep",
        tf.estimator.export.build_parsing_serving_input_receiver_fn(
            tf.feature_column.make_parse_example_spec(wide + deep)))
    train_spec = tf.estimator.TrainSpec(
        make_input_fn(True, per_replica_batch_size), max_steps=FLAGS.train_steps)
    eval_spec = tf.estimator.EvalSpec(
        make_input_fn(False, 100), steps=None, exporters=exporter, throttle_secs=0,
        start_delay_secs=0)
    results, exported = tf.estimator.train_and_evaluate(classifier, train_spec, eval_spec)
    print("accuracy = %.3f at step %d" % (results["accuracy"], results["global_step"]))
    print("exported %d model" % len(exported))


if __name__ == "__main__":
    absl_app.run(main)
