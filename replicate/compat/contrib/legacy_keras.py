"""Cells and layers of TensorFlow 1, which tf-keras keeps.

TensorFlow shows them as `tf.compat.v1.nn.rnn_cell` and `tf.compat.v1.layers` where it uses legacy
Keras. Elsewhere those of tf-keras are taken from tf-keras itself.
"""

import importlib
from typing import Any

import tensorflow as tf

v1 = tf.compat.v1
_PRIVATE = "tf_keras.api._v1.keras.__internal__.legacy"


def _module(of_tensorflow: Any, name: str, probe: str) -> Any:
    if hasattr(of_tensorflow, probe):
        return of_tensorflow
    return importlib.import_module(f"{_PRIVATE}.{name}")


rnn_cell: Any = _module(v1.nn.rnn_cell, "rnn_cell", "RNNCell")
"""`tf.nn.rnn_cell`."""

layers: Any = _module(v1.layers, "layers", "Layer")
"""`tf.layers`."""
