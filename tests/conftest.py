"""Test-wide set-up: quiet TensorFlow, eight logical CPU devices for towers, repeatable draws."""

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import hypothesis
import pytest
import tensorflow as tf

hypothesis.settings.register_profile("repeatable", derandomize=True, database=None)
hypothesis.settings.load_profile("repeatable")

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
