"""Runs one Estimator `model_fn` on many devices, and everything it takes to train it.

`replicate_model_fn` and `TowerOptimizer` make a replicated model_fn of an ordinary one; `Estimator`
trains, evaluates and predicts with it.

All public names are listed in `replicate/public.py`. They are loaded, and TensorFlow with them,
when the first of them is used: `python -m replicate.launch` and `python -m replicate.doctor` answer
at once, the latter also where TensorFlow is missing.
"""

import importlib
import importlib.metadata
import importlib.util
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from replicate.public import *  # noqa: F403

__version__ = importlib.metadata.version("replicate-model-fn")


def __getattr__(name: str) -> Any:
    if name.startswith("_") and name != "__all__":
        # What Python itself looks for, such as __path__, must not load TensorFlow.
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if importlib.util.find_spec(f"{__name__}.{name}") is not None:
        return importlib.import_module(f"{__name__}.{name}")
    hint = importlib.import_module(f"{__name__}.absent_names").HINTS.get(name)
    if hint is not None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}. {hint}")
    public = importlib.import_module(f"{__name__}.public")
    names = {"__all__": public.__all__, **{each: getattr(public, each) for each in public.__all__}}
    if name not in names:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals().update(names)
    return names[name]


def __dir__() -> list[str]:
    return sorted({*globals(), *__getattr__("__all__")})
