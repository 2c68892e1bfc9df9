"""Test-wide set-up: quiet TensorFlow and eight logical CPU devices to put towers on."""

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import pytest
import tensorflow as tf

LOGICAL_CPUS = 8

tf.config.set_logical_device_configuration(
    tf.config.list_physical_devices("CPU")[0],
    [tf.config.LogicalDeviceConfiguration()] * LOGICAL_CPUS,
)


@pytest.fixture
def graph():
    """An empty graph, made the default one for the length of the test."""
    with tf.Graph().as_default() as graph:
        yield graph
