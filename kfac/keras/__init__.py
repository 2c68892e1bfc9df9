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


def _find(name: str) -> Any:
    """Returns `legacy`, or as `Kfac` the class for the Keras that `tf.keras` is."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if name == "legacy":
        return importlib.import_module("kfac.keras.legacy")
    is_legacy = str(getattr(tf.keras, "__version__", "2.")).startswith("2.")
    return importlib.import_module(f"kfac.keras.{'legacy' if is_legacy else 'current'}").Kfac


if not TYPE_CHECKING:
    __getattr__ = _find


def __dir__() -> list[str]:
    return list(__all__)
