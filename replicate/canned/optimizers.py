"""Optimizers of ready-made estimators, as their users give them.

An estimator takes a name, an optimizer, a function that makes one, or an optimizer of Keras. Its
constructor calls `checked_optimizer`, and its model_fn calls `resolved_optimizer` in TRAIN.
"""

import functools
import types
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import tensorflow as tf

from replicate.canned.keras_optimizers import translation
from replicate.gradients.tower_optimizer import TowerOptimizer
from replicate.graph_mode import is_keras_optimizer
from replicate.tower.build import current_build

v1 = tf.compat.v1

OptimizerFn: TypeAlias = Callable[[], v1.train.Optimizer]

_NAMED: Mapping[str, Callable[..., v1.train.Optimizer]] = types.MappingProxyType(
    {
        "Adagrad": v1.train.AdagradOptimizer,
        "Adam": v1.train.AdamOptimizer,
        "Ftrl": v1.train.FtrlOptimizer,
        "RMSProp": v1.train.RMSPropOptimizer,
        "SGD": v1.train.GradientDescentOptimizer,
    }
)


def checked_optimizer(
    given: Any, learning_rate: float, owner: str, argument: str = "optimizer"
) -> v1.train.Optimizer | OptimizerFn:
    """Checks the optimizer that a user gave to an estimator's constructor.

    A value that was checked before is returned as it is.

    Args:
      given: One of the names Adagrad, Adam, Ftrl, RMSProp, SGD, which stand for optimizers of
        `tf.compat.v1.train` with their own defaults; a `tf.compat.v1.train.Optimizer`, such as a
        TowerOptimizer; a function without arguments that makes one; or an optimizer of Keras,
        which is translated, also if a function makes it.
      learning_rate: The learning rate of an optimizer that is given by its name.
      owner: Class of the estimator, for errors.
      argument: Name of the constructor's argument, for errors.

    Returns:
      The very optimizer or function that was given; a function that makes the optimizer, for a name
      or an optimizer of Keras.

    Raises:
      ValueError: The name is unknown, the value is of none of these kinds, or Keras's optimizer has
        no counterpart in `tf.compat.v1.train`.
    """
    if isinstance(given, str):
        if given not in _NAMED:
            raise ValueError(
                f"{owner}: {argument} is named {given!r}, but the names are "
                f"{', '.join(sorted(_NAMED))}. Correct it, or pass a tf.compat.v1.train.Optimizer."
            )
        return functools.partial(_NAMED[given], learning_rate=learning_rate)
    if isinstance(given, v1.train.Optimizer):
        return given
    if is_keras_optimizer(given):
        return translation(given, owner, argument)
    if isinstance(given, type) or not callable(given):
        raise ValueError(
            f"{owner}: {argument} must be one of the names {', '.join(sorted(_NAMED))}, a "
            "tf.compat.v1.train.Optimizer, a function without arguments that makes one, or an "
            f"optimizer of Keras; got {given!r}. Pass tf.compat.v1.train.AdamOptimizer(0.001), for "
            "example."
        )
    return given


def resolved_optimizer(
    given: Any, learning_rate: float, owner: str, argument: str = "optimizer"
) -> v1.train.Optimizer:
    """Returns the optimizer that trains in the current graph.

    The arguments are those of `checked_optimizer`, or `given` is its result. A function is called
    here, so it may use the global step. While towers are built, it is called once for all of them,
    and an optimizer other than a TowerOptimizer is wrapped in one.

    Returns:
      Outside of towers, the very optimizer that was given, or that the function made.

    Raises:
      ValueError: As `checked_optimizer`, or a function made no optimizer.
    """
    checked = checked_optimizer(given, learning_rate, owner, argument)
    build = current_build()
    if isinstance(checked, v1.train.Optimizer):
        optimizer = checked
    else:
        make = functools.partial(_called, checked, owner, argument)
        optimizer = build.shared(make) if build else make()
    if not isinstance(optimizer, v1.train.Optimizer):
        raise ValueError(
            f"{owner}: the function {argument} must make a tf.compat.v1.train.Optimizer, got "
            f"{optimizer!r} from {checked!r}. Let the function return one, such as "
            "tf.compat.v1.train.AdamOptimizer(0.001)."
        )
    if build is None or isinstance(optimizer, TowerOptimizer):
        return optimizer
    return TowerOptimizer(optimizer)


def _called(function: OptimizerFn, owner: str, argument: str) -> Any:
    """Returns what the user's function makes; an optimizer of Keras is translated.

    Keras's own variables are left out of checkpoints: the translated optimizer does not use them.
    """
    variables = v1.get_collection_ref(v1.GraphKeys.GLOBAL_VARIABLES)
    earlier = {variable.ref() for variable in variables}
    made = function()
    if not is_keras_optimizer(made):
        return made
    variables[:] = [variable for variable in variables if variable.ref() in earlier]
    return translation(made, owner, argument, v1.get_default_graph())()
