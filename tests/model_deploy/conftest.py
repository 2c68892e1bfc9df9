"""Graphs with either kind of variables, and a small classifier with batch normalization."""

import contextlib

import numpy as np
import pytest
import tensorflow as tf

v1 = tf.compat.v1


@contextlib.contextmanager
def new_graph(use_resource=True):
    with tf.Graph().as_default() as graph:
        v1.get_variable_scope().set_use_resource(use_resource)
        yield graph


@pytest.fixture(name="new_graph", scope="session")
def new_graph_fixture():
    """Function that makes an empty graph the default one, with resource or reference variables."""
    return new_graph


@pytest.fixture(params=[True, False], ids=["resource", "reference"])
def any_graph(request):
    """An empty graph, once with resource and once with reference variables."""
    with new_graph(request.param) as graph:
        yield graph


@pytest.fixture(scope="session")
def data():
    """Sixteen rows (inputs, labels) of two classes that a linear model tells apart."""
    rng = np.random.RandomState(7)
    labels = rng.randint(0, 2, [16, 1]).astype(np.float32)
    inputs = rng.rand(16, 4).astype(np.float32)
    inputs[:, 1] += 2 * labels[:, 0]
    return inputs, labels


def fully_connected(inputs, name, regularizer=None):
    """Logistic unit in a scope of its own, its parameters from `get_variable`."""
    with v1.variable_scope(name):
        weights = v1.get_variable(
            "weights",
            [inputs.shape[1], 1],
            initializer=v1.zeros_initializer(),
            regularizer=regularizer,
        )
        biases = v1.get_variable("biases", [1], initializer=v1.zeros_initializer())
        return tf.sigmoid(tf.matmul(inputs, weights) + biases, name="Sigmoid")


def batch_norm(inputs, decay):
    """Normalizes the columns; two operations in UPDATE_OPS follow the batch's mean and variance."""
    columns = int(inputs.shape[1])
    with v1.variable_scope("BatchNorm"):
        beta = v1.get_variable("beta", [columns], initializer=v1.zeros_initializer())
        outputs, mean, variance, *_ = v1.nn.fused_batch_norm(
            inputs[:, None, None, :], tf.ones([columns]), beta, epsilon=1e-3, is_training=True
        )
        for name, value in (("moving_mean", mean), ("moving_variance", variance)):
            moving = v1.get_variable(
                name, [columns], initializer=v1.zeros_initializer(), trainable=False
            )
            update = v1.assign_sub(moving, (moving - value) * (1 - decay), name=f"update_{name}")
            v1.add_to_collection(v1.GraphKeys.UPDATE_OPS, update)
    return outputs[:, 0, 0, :]


@pytest.fixture(scope="session")
def logistic():
    """Model function: batch → predictions; leaves its loss in LOSSES."""

    def model(inputs, labels, regularizer=None):
        predictions = fully_connected(inputs, "fully_connected", regularizer)
        v1.losses.log_loss(labels, predictions)
        return predictions

    return model


@pytest.fixture(scope="session")
def batch_norm_classifier():
    """Model function: batch → predictions, through batch normalization with decay 0.1."""

    def model(inputs, labels):
        with v1.variable_scope("BatchNormClassifier"):
            predictions = fully_connected(batch_norm(inputs, decay=0.1), "fully_connected")
            v1.losses.log_loss(labels, predictions)
        return predictions

    return model
