"""Keras' `fit` on several processes, each with all variables, that add up their gradients.

```
replicate.keras.init()  # before anything is computed
model = keras.Sequential([...])
model.compile(
    optimizer=replicate.keras.DistributedOptimizer(keras.optimizers.Adam(1e-3)),
    loss="mse",
)
model.fit(x[replicate.keras.rank()::replicate.keras.size()], ...,
          callbacks=[replicate.keras.Workers()])
```

The processes are those of TF_CONFIG; without it there is one, and nothing is sent. Keras 3 is
imported when a name is first used.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from replicate.keras.callback import Workers
    from replicate.keras.optimizer import DistributedOptimizer
    from replicate.keras.process import init, rank, size

__all__ = ["DistributedOptimizer", "Workers", "init", "rank", "size"]

_MODULES = {
    "DistributedOptimizer": "optimizer",
    "Workers": "callback",
    "init": "process",
    "rank": "process",
    "size": "process",
}


def _find(name: str) -> Any:
    """Returns a public name, from the module that makes it."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    _check_keras()
    return getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)


def _check_keras() -> None:
    """Checks the Keras of this process.

    Raises:
      ImportError: It is not Keras 3 with its TensorFlow backend.
    """
    keras = importlib.import_module("keras")
    version = keras.__version__
    backend = keras.backend.backend() if version.startswith("3.") else "tensorflow"
    if not version.startswith("3.") or backend != "tensorflow":
        raise ImportError(
            f"replicate.keras needs Keras 3 with its TensorFlow backend, and found Keras {version} "
            f"with {backend}. For Keras 2 take tf.distribute.MultiWorkerMirroredStrategy."
        )


if not TYPE_CHECKING:
    __getattr__ = _find


def __dir__() -> list[str]:
    return list(__all__)
