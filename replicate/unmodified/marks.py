"""Marks on functions, by which Estimators know how a model_fn is to be replicated.

A model_fn is a plain function, whose reduction of losses and whose towers nothing else tells.
"""

import functools

from replicate._types import ModelFn

_BUILDS_TOWERS = "builds_towers"
_REDUCTION = "loss_reduction"
_ALL = (_BUILDS_TOWERS, _REDUCTION)
"""Attributes of functions."""


def with_loss_reduction(model_fn: ModelFn, loss_reduction: str) -> ModelFn:
    """Notes for an Estimator that replicates it how a model_fn reduces the examples' losses."""
    setattr(model_fn, _REDUCTION, loss_reduction)
    return model_fn


def loss_reduction_of(model_fn: ModelFn) -> str | None:
    """Returns the reduction of the examples' losses of a model_fn, None if nobody has told it."""
    return getattr(model_fn, _REDUCTION, None)


def mark_replicated(model_fn: ModelFn) -> ModelFn:
    """Marks a model_fn that builds towers, so that an Estimator builds no towers around it."""
    setattr(model_fn, _BUILDS_TOWERS, True)
    return model_fn


def is_replicated(model_fn: ModelFn) -> bool:
    """Returns True for a model_fn that builds towers."""
    return getattr(model_fn, _BUILDS_TOWERS, False)


def replicated_like(model_fn: ModelFn, inner: ModelFn) -> ModelFn:
    """Returns a copy of a model_fn that has the marks of `inner`, which it calls, and its own.

    If both have a mark, its own counts.
    """
    same = functools.partial(model_fn)
    for function in (inner, model_fn):
        for name in _ALL:
            if hasattr(function, name):
                setattr(same, name, getattr(function, name))
    return same
