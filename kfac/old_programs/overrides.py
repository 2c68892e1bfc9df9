"""Refusal of subclasses of optimizers, blocks and factors with overrides that are never called.

The optimizers of tensorflow/kfac called private methods of their own in each step, and those of
`tf.compat.v1.train.Optimizer`. Programs that override such a method rely on it. The step of this
package has other parts: it would never call the override, and training would go on without a word.
An estimator also never calls the methods of blocks and factors for a single matrix function.
"""

import functools
from collections.abc import Mapping
from typing import Any

from kfac.tracebacks import shows_user_frames


def refuse_when_made(base: type, hooks: Mapping[str, str]) -> None:
    """Makes the constructor of an optimizer refuse subclasses that override a hook.

    `hooks` maps a method that is never called to what to override or use instead.
    """
    construct: Any = vars(base)["__init__"]

    @shows_user_frames
    @functools.wraps(construct)
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:  # noqa: N807
        _check_overrides(type(self), base, hooks)
        construct(self, *args, **kwargs)

    setattr(base, "__init__", __init__)  # noqa: B010


def refuse_when_defined(base: type[Any], hooks: Mapping[str, str]) -> None:
    """Makes the definition of a subclass of blocks or factors fail if it overrides a hook.

    `hooks` maps a method for a single matrix function to the general ones, which are called.
    """

    def __init_subclass__(cls: type[Any], /, **kwargs: Any) -> None:  # noqa: N807
        super(base, cls).__init_subclass__(**kwargs)
        found = [name for name in hooks if name in vars(cls)]
        if found:
            raise TypeError(
                f"Cannot define the class {cls.__name__}: it overrides {', '.join(found)}, which "
                "tensorflow/kfac called, and estimators here never call. Override "
                f"{hooks[found[0]]}, which they call with each function, such as "
                "kfac.fisher_factors.Power(-1). See docs/howto/kfac_registration.md."
            )

    setattr(base, "__init_subclass__", classmethod(__init_subclass__))  # noqa: B010


def _check_overrides(cls: type, base: type, hooks: Mapping[str, str]) -> None:
    """Raises the TypeError of a subclass that overrides hooks, which names them."""
    # Definitions in the base and in the classes of this package are no overrides.
    users = [c for c in cls.__mro__ if issubclass(c, base) or c not in base.__mro__]
    users = [c for c in users if c.__module__.partition(".")[0] != __name__.partition(".")[0]]
    found = {name: c for c in users for name in hooks if name in vars(c)}
    if found:
        methods = "; ".join(
            f"{c.__name__}.{name} (use {hooks[name]})" for name, c in sorted(found.items())
        )
        raise TypeError(
            f"Cannot make the optimizer {cls.__name__}: it overrides methods that tensorflow/kfac "
            f"called in its steps, and K-FAC's step here never calls: {methods}. Accepted are "
            "overrides of compute_gradients, apply_gradients, minimize and "
            "multiply_preconditioner. See docs/howto/from_tensorflow_kfac.md."
        )
