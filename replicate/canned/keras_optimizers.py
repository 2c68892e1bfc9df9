"""Translation of Keras optimizers to those of `tf.compat.v1.train`.

A Keras 3 optimizer cannot train in a graph: its assignments are lost. So its settings are read when
an estimator is made, and each graph gets a `tf.compat.v1` optimizer with the same numbers. This
works for Keras 2 too, whose optimizers cannot serve a second graph. Keras is imported only to make
a schedule anew.

Some formulas differ:

- RMSprop starts with a mean square of 0 in Keras, here with 1, so its first steps are smaller here.
- Momentum and a learning rate that changes: Keras keeps the rate of each past step, here all past
  gradients have the rate of the current step.
- Adagrad and RMSprop of Keras 2 (`legacy`) add epsilon outside of the root, here it is inside.
"""

import functools
import importlib
import inspect
import types
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import tensorflow as tf
from absl import logging

from replicate._types import Tensor
from replicate.gradients.tower_optimizer import TowerOptimizer

v1 = tf.compat.v1
log = logging.get_absl_logger()

Config: TypeAlias = Mapping[str, Any]
LearningRate: TypeAlias = float | Tensor

_WITHOUT_COUNTERPART: Mapping[str, str] = types.MappingProxyType(
    {
        "amsgrad": "Set it to False.",
        "weight_decay": "Leave it out.",
        "use_ema": "Leave it out; replicate.ModelAverageOptimizer averages weights.",
        "clipnorm": "Use global_clipnorm, or replicate.TowerOptimizer(..., clip_norm=...).",
        "clipvalue": "Use global_clipnorm, or replicate.TowerOptimizer(..., clip_norm=...).",
        "loss_scale_factor": "Use replicate.TowerOptimizer(..., loss_scale=...).",
        "gradient_accumulation_steps": "Use replicate.TowerOptimizer(..., accumulate_steps=...).",
    }
)
"""Setting that is refused unless it is off → advice."""


def translation(
    optimizer: Any, owner: str, argument: str, graph: tf.Graph | None = None
) -> Callable[[], v1.train.Optimizer]:
    """Returns a function that makes the `tf.compat.v1` optimizer with a Keras optimizer's settings.

    SGD, Adagrad, Adam, RMSprop and Ftrl have a counterpart. The function makes it in the current
    graph; a schedule is called with the global step. `global_clipnorm` makes a TowerOptimizer with
    that `clip_norm`.

    Args:
      optimizer: Optimizer of Keras 2 or 3. Its settings are read now.
      owner: Class of the estimator, for errors.
      argument: Name of the argument that the optimizer was given as, for errors.
      graph: The graph in which the optimizer was made and will train; None if it was made eagerly.

    Raises:
      ValueError: The class or a setting has no counterpart; the settings cannot be read, because
        the optimizer was made in another graph; or the schedule cannot be made anew.
    """
    kind = type(optimizer)
    what = f"{owner}: {argument}={kind.__name__}(...) of Keras"
    is_own = kind.__module__.partition(".")[0] in ("keras", "tf_keras")
    if not is_own or kind.__name__ not in _COUNTERPARTS:
        raise ValueError(
            f"{what} ({kind.__module__}) cannot be translated: {', '.join(sorted(_COUNTERPARTS))} "
            "can be. Pass one of these, or a tf.compat.v1.train.Optimizer."
        )
    config = _config(optimizer, what, graph)
    for setting, advice in _WITHOUT_COUNTERPART.items():
        if config.get(setting):
            raise ValueError(
                f"{what} has {setting}={config[setting]!r}, which no optimizer of "
                f"tf.compat.v1.train has. {advice}"
            )
    if kind.__name__ == "RMSprop":
        log.warning(
            "%s: its mean square starts at 1 here and at 0 in Keras, so that the first steps are "
            "smaller.",
            what,
        )
    learning_rate = _learning_rate_fn(config, kind.__module__.partition(".")[0], what)
    return functools.partial(_counterpart, kind.__name__, config, learning_rate)


def _config(optimizer: Any, what: str, graph: tf.Graph | None) -> Config:
    """Returns a Keras optimizer's settings."""
    try:
        return dict(optimizer.get_config())
    except NotImplementedError as error:
        rate = _initial_rate(optimizer)
        if graph is None or rate.graph is not graph:
            raise ValueError(
                f"{what} was made in a graph, so that its settings cannot be read. Make it where "
                "operations run eagerly, or in a function, or pass a tf.compat.v1.train.Optimizer."
            ) from error
        settings = inspect.signature(type(optimizer)).parameters
        return {
            **{name: getattr(optimizer, name, None) for name in (*settings, *_WITHOUT_COUNTERPART)},
            "learning_rate": rate,
        }


def _initial_rate(optimizer: Any) -> Tensor:
    """Returns the learning rate that a Keras optimizer was given in a graph, also if it changes."""
    rate = optimizer.learning_rate
    return (rate if isinstance(rate, tf.Variable) else rate.value).initial_value


def _learning_rate_fn(config: Config, package: str, what: str) -> Callable[[], LearningRate]:
    """Returns a function that gives the learning rate in the current graph."""
    rate, decay = config["learning_rate"], float(config.get("decay", 0.0))
    if isinstance(rate, Mapping):
        rate = _schedule(rate, package, what)

    def in_graph() -> LearningRate:
        current = rate
        if callable(rate):
            current = rate(v1.train.get_or_create_global_step())
        elif not isinstance(rate, tf.Tensor):
            current = float(rate)
        if not decay:
            return current
        return current / (1.0 + decay * tf.cast(v1.train.get_or_create_global_step(), tf.float32))

    return in_graph


def _schedule(config: Config, package: str, what: str) -> Callable[[Tensor], Tensor]:
    """Returns a schedule made anew from its settings."""
    schedules = importlib.import_module(package).optimizers.schedules
    made, cause = None, None
    try:
        made = schedules.deserialize(dict(config))
    except (TypeError, ValueError) as error:
        cause = error
    if not callable(made):
        raise ValueError(
            f"{what} has the learning rate {config['class_name']}, which cannot be made anew in "
            "the graph of a model. Pass a schedule of keras.optimizers.schedules, register the "
            "class with keras.utils.register_keras_serializable, or pass a function that makes a "
            "tf.compat.v1.train.Optimizer."
        ) from cause
    return made


def _counterpart(
    kind: str, config: Config, learning_rate: Callable[[], LearningRate]
) -> v1.train.Optimizer:
    """Makes the optimizer of `tf.compat.v1.train` in the current graph."""
    optimizer = _COUNTERPARTS[kind](config, learning_rate())
    clip_norm = config.get("global_clipnorm")
    return TowerOptimizer(optimizer, clip_norm=clip_norm) if clip_norm else optimizer


def _sgd(config: Config, rate: LearningRate) -> v1.train.Optimizer:
    if not config["momentum"]:
        return v1.train.GradientDescentOptimizer(rate)
    return v1.train.MomentumOptimizer(rate, config["momentum"], use_nesterov=config["nesterov"])


def _adagrad(config: Config, rate: LearningRate) -> v1.train.Optimizer:
    # Keras adds epsilon to the accumulator in each step; here the accumulator begins with it.
    start = config["initial_accumulator_value"] + config["epsilon"]
    return v1.train.AdagradOptimizer(rate, initial_accumulator_value=start)


def _adam(config: Config, rate: LearningRate) -> v1.train.Optimizer:
    return v1.train.AdamOptimizer(rate, config["beta_1"], config["beta_2"], config["epsilon"])


def _rmsprop(config: Config, rate: LearningRate) -> v1.train.Optimizer:
    return v1.train.RMSPropOptimizer(
        rate, config["rho"], config["momentum"], config["epsilon"], centered=config["centered"]
    )


def _ftrl(config: Config, rate: LearningRate) -> v1.train.Optimizer:
    return v1.train.FtrlOptimizer(
        rate,
        learning_rate_power=config["learning_rate_power"],
        initial_accumulator_value=config["initial_accumulator_value"],
        l1_regularization_strength=config["l1_regularization_strength"],
        l2_regularization_strength=config["l2_regularization_strength"],
        l2_shrinkage_regularization_strength=config["l2_shrinkage_regularization_strength"],
        beta=config["beta"],
    )


_COUNTERPARTS: Mapping[str, Callable[[Config, LearningRate], v1.train.Optimizer]] = (
    types.MappingProxyType(
        {"Adagrad": _adagrad, "Adam": _adam, "Ftrl": _ftrl, "RMSprop": _rmsprop, "SGD": _sgd}
    )
)
