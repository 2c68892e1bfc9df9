"""The method `apply` of layers of Keras, by which programs called them in TensorFlow 1."""

from typing import Any

_given: list[Any] = []


def give_apply(keras: Any) -> None:
    """Gives the layers of a Keras the method `apply`, unless they have it, until `undo`."""
    layer = keras.layers.Layer
    if not hasattr(layer, "apply"):
        layer.apply = _apply
        _given.append(layer)


def undo() -> None:
    """Takes the method back."""
    while _given:
        del _given.pop().apply


def _apply(self: Any, inputs: Any, *args: Any, **kwargs: Any) -> Any:
    """Calls the layer."""
    return self(inputs, *args, **kwargs)
