"""Losses that a model_fn makes or differentiates, as functions of TensorFlow note them.

While `recorded_reductions` is entered, the functions of `tf.compat.v1.losses` tell the reduction of
what they return, and `tf.gradients` tells what it differentiates, in each tower whose settings
leave the reduction open. `loss_verdicts` judges them.
"""

import contextlib
import functools
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import tensorflow as tf

from replicate.tower.build import current_build
from replicate.unmodified.shared_patch import SharedPatch

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
            build.verdicts.tell(loss, given.arguments["reduction"] == v1.losses.Reduction.SUM)
        return loss

    return recording


def _replacements() -> tuple[Any, Mapping[str, Any]]:
    losses = v1.losses
    return losses, {name: _recording(getattr(losses, name)) for name in _FUNCTIONS}


def _differentiating(function: Callable[..., Any]) -> Callable[..., Any]:
    """Returns `tf.gradients`, which also notes the loss that a tower differentiates."""

    @functools.wraps(function)
    def gradients(ys: Any, xs: Any, *args: Any, **kwargs: Any) -> Any:
        build = current_build()
        losses = list(ys) if isinstance(ys, list | tuple) else [ys]
        if build is not None and build.tower is not None and _is_loss(losses):
            build.verdicts.differentiated(losses[0])
            ys = build.counted_loss(losses[0])
        return function(ys, xs, *args, **kwargs)

    return gradients


def _is_loss(losses: Sequence[Any]) -> bool:
    is_one = len(losses) == 1 and isinstance(losses[0], tf.Tensor)
    return is_one and losses[0].shape.rank == 0 and losses[0].dtype.is_floating


_patches = [
    SharedPatch(_replacements),
    SharedPatch(lambda: (v1, {"gradients": _differentiating(v1.gradients)})),
    SharedPatch(lambda: (tf, {"gradients": _differentiating(tf.gradients)})),
]


@contextlib.contextmanager
def recorded_reductions() -> Iterator[None]:
    """Notes losses in towers while inside the context."""
    with contextlib.ExitStack() as stack:
        for patch in _patches:
            stack.enter_context(patch.entered())
        yield
