"""Trains a small convolutional network on handwritten digits with slim.

Reads the files of MNIST in --data_dir, or scikit-learn's digits without one.
"""
from __future__ import absolute_import
from __future__ import division
from __future__ import print_function

import gzip
import os

import numpy as np
import tensorflow as tf

slim = tf.contrib.slim

flags = tf.app.flags
flags.DEFINE_string("data_dir", "", "Directory of MNIST's four .gz files.")
flags.DEFINE_string("model_dir", "/tmp/slim_2017", "Directory of checkpoints and summaries.")
flags.DEFINE_integer("batch_size", 64, "Images of a batch.")
flags.DEFINE_integer("train_steps", 200, "Number of training steps.")
flags.DEFINE_float("learning_rate", 0.01, "Initial learning rate.")
flags.DEFINE_float("weight_decay", 0.0005, "Weight decay of the convolutions.")
FLAGS = flags.FLAGS


def read_idx(name, offset):
    with gzip.open(os.path.join(FLAGS.data_dir, name)) as f:
        return np.frombuffer(f.read(), np.uint8, offset=offset)


def load_data():
    if FLAGS.data_dir:
        data = []
        for part in ("train", "t10k"):
            images = read_idx(part + "-images-idx3-ubyte.gz", 16).reshape([-1, 28, 28, 1])
            labels = read_idx(part + "-labels-idx1-ubyte.gz", 8)
            data.append((images.astype(np.float32) / 255.0, labels.astype(np.int32)))
        return data
    from sklearn.datasets import load_digits
    digits = load_digits()
    images = digits.images[..., np.newaxis].astype(np.float32) / 16.0
    labels = digits.target.astype(np.int32)
    return (images[:1400], labels[:1400]), (images[1400:], labels[1400:])


def arg_scope(weight_decay):
    with slim.arg_scope(
            [slim.conv2d, slim.fully_connected],
            activation_fn=tf.nn.relu,
            weights_initializer=tf.contrib.layers.xavier_initializer(),
            weights_regularizer=slim.l2_regularizer(weight_decay)) as scope:
        return scope


def network(images, is_training):
    """Returns the logits of ten classes."""
    with slim.arg_scope(arg_scope(FLAGS.weight_decay)):
        net = slim.conv2d(images, 16, [3, 3], scope="conv1")
        net = slim.max_pool2d(net, [2, 2], scope="pool1")
        net = slim.conv2d(net, 32, [3, 3], scope="conv2")
        net = slim.max_pool2d(net, [2, 2], scope="pool2")
        net = slim.flatten(net)
        net = slim.fully_connected(net, 64, scope="fc3")
        net = slim.dropout(net, 0.9, is_training=is_training, scope="dropout3")
        return slim.fully_connected(net, 10, activation_fn=None, scope="fc4")


def model_fn(features, labels, mode):
    is_training = mode == tf.estimator.ModeKeys.TRAIN
    logits = network(features["image"], is_training)
    predictions = {
        "classes": tf.argmax(logits, axis=1),
        "probabilities": tf.nn.softmax(logits),
    }
    if mode == tf.estimator.ModeKeys.PREDICT:
        return tf.estimator.EstimatorSpec(mode, predictions=predictions)

    tf.losses.sparse_softmax_cross_entropy(labels, logits)
    total_loss = tf.losses.get_total_loss()
    train_op = None
    if is_training:
        train_op = tf.contrib.layers.optimize_loss(
            loss=total_loss,
            global_step=tf.contrib.framework.get_or_create_global_step(),
            learning_rate=FLAGS.learning_rate,
            optimizer="Adam",
            clip_gradients=5.0,
            learning_rate_decay_fn=lambda rate, step: tf.train.exponential_decay(
                rate, step, 100, 0.9, staircase=True),
            summaries=["loss", "learning_rate"])
    metrics = {"accuracy": tf.metrics.accuracy(labels, predictions["classes"])}
    return tf.estimator.EstimatorSpec(
        mode, loss=total_loss, train_op=train_op, predictions=predictions, eval_metric_ops=metrics)


def main(_):
    tf.logging.set_verbosity(tf.logging.INFO)
    (train_images, train_labels), (test_images, test_labels) = load_data()
    run_config = tf.estimator.RunConfig().replace(save_summary_steps=50)
    classifier = tf.estimator.Estimator(
        model_fn=model_fn, model_dir=FLAGS.model_dir, config=run_config)
    classifier.train(
        input_fn=tf.estimator.inputs.numpy_input_fn(
            x={"image": train_images}, y=train_labels, batch_size=FLAGS.batch_size,
            num_epochs=None, shuffle=True),
        steps=FLAGS.train_steps)
    results = classifier.evaluate(
        input_fn=tf.estimator.inputs.numpy_input_fn(
            x={"image": test_images}, y=test_labels, num_epochs=1, shuffle=False))
    print("accuracy = %.3f at step %d" % (results["accuracy"], results["global_step"]))


if __name__ == "__main__":
    tf.app.run()
