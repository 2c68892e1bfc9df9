"""The log: absl's logger, which programs configure with absl's flags or `absl.logging`.

It is used as it is rather than through `absl.logging.info` and the like: where a program has not
configured Python's logging, these do, for the whole process, after which TensorFlow's own lines
come out twice. Used throughout the runtime.
"""

from absl import logging

log = logging.get_absl_logger()
