"""The logger of the runtime: absl's logger, which programs configure through `absl.logging`.

The runtime does not call `absl.logging.info` and the like: if a program has not configured Python's
logging, these functions configure it for the whole process, and TensorFlow's own lines then appear
twice.
"""

from absl import logging

log = logging.get_absl_logger()
