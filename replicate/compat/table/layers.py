"""Rows of tf.layers and of the private modules where programs find its classes."""

from replicate.compat.table.row import Row

_OURS = "replicate.compat.layers"
_MODULES = ("base", "convolutional", "core", "layers", "normalization", "pooling")

ROWS = [
    Row("tf.layers.*", _OURS, "They need a graph, and no Keras."),
    *(Row(f"tf.python.layers.{module}.*", _OURS) for module in _MODULES),
]
