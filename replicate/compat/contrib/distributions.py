"""tf.contrib.distributions: TensorFlow Probability's where it is installed.

Without it, they are those that TensorFlow has kept in `tf.distributions`, and others need it.
"""

import importlib
import importlib.util
from typing import Any

import tensorflow as tf

from replicate.compat.absent import absent
from replicate.compat.table import MISSING

_PROBABILITY = "tensorflow_probability"


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if importlib.util.find_spec(_PROBABILITY) is not None:
        probability: Any = importlib.import_module(_PROBABILITY)
        is_part = name == "bijectors"
        return probability.bijectors if is_part else getattr(probability.distributions, name)
    if hasattr(tf.compat.v1.distributions, name):
        return getattr(tf.compat.v1.distributions, name)
    return absent(f"tf.contrib.distributions.{name}", MISSING[_PROBABILITY])


def __dir__() -> list[str]:
    if importlib.util.find_spec(_PROBABILITY) is not None:
        return dir(importlib.import_module(_PROBABILITY).distributions)
    return dir(tf.compat.v1.distributions)
