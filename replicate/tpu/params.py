"""Batch sizes and their place in params, from which an input_fn and a model_fn read them.

`estimator.py` adds the size of the whole batch of a mode, on towers the rows of a tower.
"""

import copy
import dataclasses
import operator
from typing import Any

from replicate.errors import ArgumentTypeError
from replicate.spec import ModeKeys

BATCH_SIZE = "batch_size"


@dataclasses.dataclass(frozen=True)
class BatchSizes:
    """Rows of a whole batch in each mode, ≥ 1; None where the input_fn decides alone."""

    train: int | None
    evaluate: int | None
    predict: int | None

    def __post_init__(self) -> None:
        """Checks the sizes.

        Raises:
          ValueError: A size is not a positive whole number.
        """
        arguments = ("train_batch_size", "eval_batch_size", "predict_batch_size")
        for name, field in zip(arguments, dataclasses.fields(self), strict=True):
            _check_size(name, getattr(self, field.name))

    def of(self, mode: str) -> int | None:
        """Returns the rows of a batch in a mode."""
        sizes = {ModeKeys.TRAIN: self.train, ModeKeys.EVAL: self.evaluate}
        return sizes.get(mode, self.predict)


def check_params(params: Any) -> None:
    """Checks that a batch size can be added to params.

    Raises:
      ValueError: params have a batch size.
      TypeError: params are neither a dict nor HParams.
    """
    if params is None:
        return
    if not (hasattr(params, "set_hparam") or hasattr(params, "__setitem__")):
        raise ArgumentTypeError(
            "TPUEstimator: params must be a dict or HParams, to which the batch size is added, got "
            f"{params!r}. Pass a dict."
        )
    if BATCH_SIZE in params:
        raise ValueError(
            f"TPUEstimator: params must not contain {BATCH_SIZE!r}, where input_fn and model_fn "
            f"find the batch size of the mode, got {params!r}. Leave it out, and pass "
            "train_batch_size, eval_batch_size and predict_batch_size."
        )


def entry(params: Any, name: str) -> Any:
    """Returns an entry of params, a dict or HParams."""
    return getattr(params, name) if hasattr(params, "set_hparam") else params[name]


def with_entry(params: Any, name: str, value: Any) -> Any:
    """Returns a copy of params, a dict or HParams, with an entry added or replaced."""
    changed = copy.deepcopy(params)
    if not hasattr(changed, "set_hparam"):
        changed[name] = value
    elif name in changed:
        changed.set_hparam(name, value)
    else:
        changed.add_hparam(name, value)
    return changed


def _check_size(name: str, size: Any) -> None:
    try:
        is_accepted = size is None or (not isinstance(size, bool) and operator.index(size) >= 1)
    except TypeError:
        is_accepted = False
    if not is_accepted:
        raise ValueError(
            f"TPUEstimator: {name} must be a whole number >= 1 or None, got {size!r}. Correct it."
        )
