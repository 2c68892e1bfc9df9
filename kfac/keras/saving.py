"""The state and arguments of an optimizer, as Keras saves them.

State is saved by name, not by position, so that it can be loaded before it is made: K-FAC's
variables are made when the first step is traced. Called by the optimizers of both Keras.
"""

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from kfac._types import Variable
from kfac.keras.step import StepSettings
from kfac.keras.trained_variables import components
from kfac.keras.training import CHANGEABLE, Training
from kfac.variables import name_of


def save_state(optimizer: Any, store: Any) -> None:
    """Writes the state of an optimizer into a store of Keras, by name."""
    for variable in _own_variables(optimizer):
        store[_key(variable)] = variable.numpy()
    for name, value in optimizer.training.store.values().items():
        store[name] = value


def load_state(optimizer: Any, store: Any) -> None:
    """Sets the state of an optimizer from a store of Keras, now or when the state is made."""
    values = {name: np.array(store[name]) for name in store.keys()}  # noqa: SIM118
    for variable in _own_variables(optimizer):
        if _key(variable) in values:
            variable.assign(values.pop(_key(variable)))
    optimizer.training.store.load(values)


def _own_variables(optimizer: Any) -> list[Variable]:
    """Returns the variables that are there from the start, such as the learning rate."""
    made = {id(variable) for variable in optimizer.training.store.variables.values()}
    return [v for v in optimizer.variables if id(first_component(v)) not in made]


def _key(variable: Variable) -> str:
    return name_of(variable).rpartition("/")[-1]


def first_component(variable: Variable) -> Variable:
    """Returns the `tf.Variable` of a variable of Keras; of a mirrored one, the first."""
    return components(tf.distribute.get_strategy(), variable)[0]


def as_config(training: Training, serialize: Callable[[Any], Any]) -> dict[str, Any]:
    """Returns an optimizer's arguments, but for name and learning rate, with the current numbers.

    `serialize` is the function of Keras that serializes a schedule.
    """
    numbers = {name: training.number(name) for name in CHANGEABLE}
    return {
        **{name: _serialized(value, serialize) for name, value in numbers.items()},
        **_settings(training.settings),
    }


def from_config(config: dict[str, Any], deserialize: Callable[[Any], Any]) -> dict[str, Any]:
    """Returns the arguments of an optimizer, with schedules in place of their configs."""
    schedules = {
        name: deserialize(config[name])
        for name in ("learning_rate", *CHANGEABLE)
        if isinstance(config.get(name), dict)
    }
    return {**config, **schedules}


def _serialized(value: Any, serialize: Callable[[Any], Any]) -> Any:
    if hasattr(value, "assign"):
        return float(value.numpy())
    return serialize(value) if callable(value) else value


def _settings(settings: StepSettings) -> dict[str, Any]:
    config = None if settings.config is None else dataclasses.asdict(settings.config)
    return {
        "adaptive": settings.adaptive,
        "fisher_approx": _by_name(settings.fisher_approx),
        "unknown_layers": settings.unknown_layers,
        "batch_size": settings.batch_size,
        "gradient_accumulation_steps": settings.accumulation_steps,
        "config": config and {name: _plain(value) for name, value in config.items()},
        **settings.arguments,
    }


def _by_name(approximations: Any) -> Any:
    if approximations is None or isinstance(approximations, str):
        return approximations
    return {k if isinstance(k, str) else k.__name__: a for k, a in approximations.items()}


def _plain(value: Any) -> Any:
    return value.name if isinstance(value, tf.DType) else value
