# What mypy is told of TensorFlow, which ships no types: every name is Any. The modules are spelled
# out only so that `v1 = tf.compat.v1` is a module to mypy, and v1.Session may stand in a signature.
from typing import Any

from tensorflow import compat as compat

def __getattr__(name: str) -> Any: ...
