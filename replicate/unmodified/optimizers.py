"""Optimizers that a model_fn does not wrap: the gradients of all towers are gathered for them, too.

While `gathered_optimizers` is entered, an optimizer of `tf.compat.v1.train` does in a tower what
`TowerOptimizer(optimizer)` does, if the settings of the towers ask for it. Nothing changes outside
of towers, in other graphs and in other threads.

One function on the base class of all optimizers finds their attributes meanwhile. So it covers each
subclass, also one that overrides `apply_gradients` or that is defined in a model_fn. Calls of
`super().apply_gradients` are not looked up by it and keep their meaning.
"""

from typing import Any

import tensorflow as tf

from replicate.gradients.tower_optimizer import TowerOptimizer
from replicate.tower.build import TowerBuild, build_of_tower
from replicate.tower.workers import current_workers
from replicate.unmodified.shared_patch import SharedPatch

v1 = tf.compat.v1


def _attribute(optimizer: v1.train.Optimizer, name: str) -> Any:
    """Returns an attribute of an optimizer; in a tower, methods that know all towers."""
    found = object.__getattribute__(optimizer, name)
    if name not in ("apply_gradients", "compute_gradients"):
        return found
    build = _gathering_build()
    if build is None or isinstance(optimizer, TowerOptimizer):
        return found
    if name == "apply_gradients":
        return TowerOptimizer(optimizer).apply_gradients

    def compute_gradients(loss: Any, *args: Any, **kwargs: Any) -> Any:
        build.add_loss(loss, optimizer)
        return found(build.counted_loss(loss), *args, **kwargs)

    return compute_gradients


def _gathering_build() -> TowerBuild | None:
    """Returns the current build if it gathers gradients of several towers or workers."""
    build = build_of_tower()
    if build is None or build.tower is None:
        return None
    is_alone = build.tower.count == 1 and current_workers() is None
    return build if build.settings.wraps_optimizers and not is_alone else None


_patch = SharedPatch(lambda: (v1.train.Optimizer, {"__getattribute__": _attribute}))

gathered_optimizers = _patch.entered
"""Context in which towers gather the gradients of all optimizers."""
