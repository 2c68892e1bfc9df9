"""Fixtures of the tests of the stock tf.estimator. They run where TensorFlow has it."""

import pytest
import tensorflow as tf


@pytest.fixture(scope="session")
def run_config():
    """Settings with which a tf.estimator.Estimator computes on every logical CPU, repeatably."""
    cpus = len(tf.config.list_logical_devices("CPU"))
    return tf.estimator.RunConfig(
        tf_random_seed=1,
        save_summary_steps=None,
        log_step_count_steps=None,
        session_config=tf.compat.v1.ConfigProto(device_count={"CPU": cpus}),
    )
