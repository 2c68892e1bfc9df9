"""The loggers of the runtime: absl's, and for results also TensorFlow's.

Programs configure absl's logger through `absl.logging`. The runtime does not call
`absl.logging.info` and the like: if a program has not configured Python's logging, these functions
configure it for the whole process, and TensorFlow's own lines then appear twice.
"""

from collections.abc import Mapping
from typing import Any

import tensorflow as tf
from absl import logging

log = logging.get_absl_logger()


def log_final_loss(loss: Any) -> None:
    """Logs the loss of the last step as tf.estimator did, for programs that keep or search logs."""
    tf.get_logger().info("Loss for final step: %s.", loss)


def log_evaluation(results: Mapping[str, Any]) -> None:
    """Logs the results of an evaluation, "global_step" among them, as tf.estimator did."""
    shown = [(name, each) for name, each in sorted(results.items()) if not isinstance(each, bytes)]
    text = ", ".join(f"{name} = {each}" for name, each in shown)
    tf.get_logger().info("Saving dict for global step %d: %s", results["global_step"], text)
