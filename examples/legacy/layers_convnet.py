"""A ConvNet of tf.layers with batch normalization, on scikit-learn's images of digits.

    python -m examples.legacy.layers_convnet --towers=2 --export_dir=runs/digits

In 2018 the first lines read `import tensorflow as tf` and `from tensorflow import estimator`,
and the layers were those of `tf.layers`.
"""

from examples.legacy import program

if __name__ == "__main__":
    program.parse_flags()  # before the import of TensorFlow, which takes seconds

import numpy as np
import tensorflow.compat.v1 as tf
from sklearn.datasets import load_digits

import replicate as estimator
from replicate.compat import layers

IMAGES, DIGITS = load_digits(return_X_y=True)
IMAGES = (IMAGES.reshape(-1, 8, 8, 1) / 16).astype(np.float32)
DIGITS = DIGITS.astype(np.int32)
TRAINING = slice(0, 1500)
TEST = slice(1500, None)


def model_fn(features, labels, mode):
    """Two convolutions, each with batch normalization, and a dense layer."""
    training = mode == estimator.ModeKeys.TRAIN
    net = features["image"]
    for filters in (8, 16):
        net = layers.conv2d(net, filters, 3, padding="same", use_bias=False)
        net = layers.batch_normalization(net, momentum=0.9, training=training)
        net = layers.max_pooling2d(tf.nn.relu(net), 2, 2)
    net = layers.dropout(layers.flatten(net), 0.2, training=training)
    logits = layers.dense(net, 10)

    predictions = {"digit": tf.argmax(logits, 1), "probabilities": tf.nn.softmax(logits)}
    if mode == estimator.ModeKeys.PREDICT:
        return estimator.EstimatorSpec(mode, predictions=predictions)

    loss = tf.losses.sparse_softmax_cross_entropy(labels, logits)
    metrics = {"accuracy": tf.metrics.accuracy(labels, predictions["digit"])}
    if mode == estimator.ModeKeys.EVAL:
        return estimator.EstimatorSpec(mode, loss=loss, eval_metric_ops=metrics)

    optimizer = estimator.TowerOptimizer(tf.train.AdamOptimizer(0.01))
    update_ops = tf.get_collection(tf.GraphKeys.UPDATE_OPS)
    with tf.control_dependencies(update_ops):
        train_op = optimizer.minimize(loss, tf.train.get_global_step())
    return estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)


PROGRAM = program.Program(
    model_fn,
    estimator.inputs.numpy_input_fn(
        {"image": IMAGES[TRAINING]}, DIGITS[TRAINING], 64, num_epochs=None, shuffle=True
    ),
    estimator.inputs.numpy_input_fn({"image": IMAGES[TEST]}, DIGITS[TEST], shuffle=False),
    estimator.export.build_raw_serving_input_receiver_fn({"image": IMAGES}),
)

if __name__ == "__main__":
    program.run(PROGRAM)
