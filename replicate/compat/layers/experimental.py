"""tf.layers.experimental: the choice of Keras' style."""

from replicate.compat.layers.keras_style import keras_style_scope, set_keras_style

__all__ = ["keras_style_scope", "set_keras_style"]
