import pytest
import tensorflow as tf


@pytest.fixture(autouse=True)
def same_tensor_float_32():
    """Restores the setting of the process that parts change."""
    was_enabled = tf.config.experimental.tensor_float_32_execution_enabled()
    yield
    tf.config.experimental.enable_tensor_float_32_execution(was_enabled)
