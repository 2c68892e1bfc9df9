"""A network of two hidden layers for the digits, in the four steps of the old tutorial."""

import tensorflow as tf

from replicate._types import Operation, Tensor

v1 = tf.compat.v1

NUM_CLASSES = 10
IMAGE_SIZE = 28
IMAGE_PIXELS = IMAGE_SIZE * IMAGE_SIZE


def inference(images: Tensor, hidden1_units: int, hidden2_units: int) -> Tensor:
    """Builds the network: images [batch, 784] to logits [batch, 10].

    Variables: weights and biases in hidden1, hidden2 and softmax_linear.

    Returns:
      Logits, [batch, 10].
    """
    net = tf.nn.relu(_layer("hidden1", images, IMAGE_PIXELS, hidden1_units))
    net = tf.nn.relu(_layer("hidden2", net, hidden1_units, hidden2_units))
    return _layer("softmax_linear", net, hidden2_units, NUM_CLASSES)


def loss(logits: Tensor, labels: Tensor) -> Tensor:
    """Returns the mean cross entropy of logits [batch, 10] and classes [batch]."""
    labels = tf.cast(labels, tf.int64)
    return v1.losses.sparse_softmax_cross_entropy(labels=labels, logits=logits)


def training(loss: Tensor, learning_rate: float) -> Operation:
    """Returns a step of gradient descent, which counts in a variable "global_step".

    The loss is summarized, too.
    """
    v1.summary.scalar("loss", loss)
    step = v1.Variable(0, name="global_step", trainable=False)
    return v1.train.GradientDescentOptimizer(learning_rate).minimize(loss, global_step=step)


def evaluation(logits: Tensor, labels: Tensor) -> Tensor:
    """Returns the number of images whose largest logit is that of their class, int32."""
    correct = tf.nn.in_top_k(predictions=logits, targets=labels, k=1)
    return tf.reduce_sum(tf.cast(correct, tf.int32))


def _layer(name: str, inputs: Tensor, width: int, units: int) -> Tensor:
    with v1.name_scope(name):
        start = tf.random.truncated_normal([width, units], stddev=width**-0.5)
        weights = v1.Variable(start, name="weights")
        biases = v1.Variable(tf.zeros([units]), name="biases")
        return tf.matmul(inputs, weights) + biases
