"""K-FAC as an optimizer of Keras: for `compile` and `fit`, and for a loop in a `tf.function`.

`Kfac` is the class for the Keras that `tf.keras` is: Keras 3, or tf_keras where a program has
chosen that, or the Keras of TensorFlow 2.15. For tf_keras beside Keras 3 there is
`kfac.keras.legacy.Kfac`. Keras is imported when one of them is first asked for.
"""

import importlib
from typing import TYPE_CHECKING, Any

import tensorflow as tf

if TYPE_CHECKING:
    from kfac.keras import legacy
    from kfac.keras.current import Kfac

__all__ = ["Kfac", "legacy"]

_MODULES = {True: "kfac.keras.legacy", False: "kfac.keras.current"}


def __getattr__(name: str) -> Any:
    """Returns the class, or the module of the other Keras, imported when first asked for."""
    if name == "legacy":
        return importlib.import_module("kfac.keras.legacy")
    if name != "Kfac":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    is_legacy = str(getattr(tf.keras, "__version__", "2.")).startswith("2.")
    return importlib.import_module(_MODULES[is_legacy]).Kfac


def __dir__() -> list[str]:
    return list(__all__)
