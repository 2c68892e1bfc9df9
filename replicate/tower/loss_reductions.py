"""Reductions of the losses that a model_fn makes, read from its calls of `tf.compat.v1.losses`.

TensorFlow 1 sums the gradients of a strategy's devices if the last of these calls had the reduction
SUM, and averages them otherwise. `recorded_reductions` notes that call in each tower whose settings
leave the reduction open.
"""

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any

import tensorflow as tf

from replicate.tower.build import current_build
from replicate.tower.shared_patch import SharedPatch

v1 = tf.compat.v1

_FUNCTIONS = (
    "absolute_difference",
    "compute_weighted_loss",
    "cosine_distance",
    "hinge_loss",
    "huber_loss",
    "log_loss",
    "mean_squared_error",
    "sigmoid_cross_entropy",
    "softmax_cross_entropy",
    "sparse_softmax_cross_entropy",
)


def _recording(function: Callable[..., Any]) -> Callable[..., Any]:
    """Returns the function, which also notes its reduction in a tower."""
    signature = inspect.signature(function)

    @functools.wraps(function)
    def recording(*args: Any, **kwargs: Any) -> Any:
        loss = function(*args, **kwargs)
        build = current_build()
        if build is not None and build.tower is not None and build.settings.averages_loss is None:
            given = signature.bind(*args, **kwargs)
            given.apply_defaults()
            build.sums_loss = given.arguments["reduction"] == v1.losses.Reduction.SUM
        return loss

    return recording


def _replacements() -> tuple[Any, Mapping[str, Any]]:
    losses = v1.losses
    return losses, {name: _recording(getattr(losses, name)) for name in _FUNCTIONS}


_patch = SharedPatch(_replacements)

recorded_reductions = _patch.entered
"""Context in which towers note the reductions of their losses."""
