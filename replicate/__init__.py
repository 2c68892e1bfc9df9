"""Training of one Estimator `model_fn` on many devices.

`replicate_model_fn` and `TowerOptimizer` turn a model_fn into a replicated one. `Estimator` trains,
evaluates and predicts with it.

`replicate/public.py` lists all public names. It is loaded, and TensorFlow with it, when a name is
first used. So `python -m replicate.launch` and `python -m replicate.doctor` start at once, and the
doctor also works where TensorFlow is missing.
"""

import importlib
import importlib.util
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from replicate.public import *  # noqa: F403

    __version__: str


def __getattr__(name: str) -> Any:
    if name == "__version__":
        globals()[name] = importlib.import_module(f"{__name__}.version").version()
        return globals()[name]
    if name.startswith("_") and name != "__all__":
        # Python looks for names such as __path__. They must not load TensorFlow.
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if importlib.util.find_spec(f"{__name__}.{name}") is not None:
        return importlib.import_module(f"{__name__}.{name}")
    absent = importlib.import_module(f"{__name__}.absent_names")
    if name in absent.HINTS:
        raise absent.error_for(name, sys._getframe(1))
    public = importlib.import_module(f"{__name__}.public")
    names = {"__all__": public.__all__, **{each: getattr(public, each) for each in public.__all__}}
    if name not in names:
        raise absent.error_for(name, sys._getframe(1), public.__all__)
    globals().update(names)
    return names[name]


def __dir__() -> list[str]:
    return sorted(["__version__", *__getattr__("__all__")])
