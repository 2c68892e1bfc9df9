"""The state and arguments of an optimizer, as Keras saves them.

State is saved by name, not by position, so that it can be loaded before it is made: K-FAC's
variables are made when the first step is traced. Called by the optimizers of both Keras.
"""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from kfac._types import Variable
from kfac.keras.step import StepSettings
from kfac.keras.trained_variables import components
from kfac.keras.training import CHANGEABLE, Training
from kfac.keras.user_lines import warn
from kfac.variables import name_of


def save_state(optimizer: Any, store: Any) -> None:
    """Writes the state of an optimizer into a store of Keras, by name."""
    for variable in _own_variables(optimizer):
        store[_key(variable)] = variable.numpy()
    for name, value in optimizer.training.store.values().items():
        store[name] = value


def load_state(optimizer: Any, store: Any) -> None:
    """Sets the state of an optimizer from a store of Keras, now or when the state is made.

    It warns if the store has none, such as one that another optimizer wrote.
    """
    values = {name: np.array(store[name]) for name in store.keys()}  # noqa: SIM118
    own = {_key(variable): variable for variable in _own_variables(optimizer)}
    found = {name: values.pop(name) for name in own if name in values}
    if not found or (found.get("iteration", 0) > 0 and not values):
        _warn_of_lost_state("the file has none of K-FAC")
    for name, value in found.items():
        own[name].assign(value)
    if found:
        optimizer.training.store.load(values)


def load_without_names(optimizer: Any, weights: Sequence[Any]) -> bool:
    """Sets the numbers of an optimizer that has no statistics yet, from all its variables' values.

    A file in the format HDF5 gives values without names, before the statistics are made. Returns
    False if the values are not those of such a file.
    """
    own = _own_variables(optimizer)
    shapes = [tuple(variable.shape) for variable in own]
    given = [np.shape(weight) for weight in weights[: len(own)]]
    if optimizer.training.store.variables or len(weights) <= len(own) or given != shapes:
        return False
    for variable, weight in zip(own, weights, strict=False):
        variable.assign(weight)
    _warn_of_lost_state("a .h5 file gives it without names")
    return True


def _warn_of_lost_state(why: str) -> None:
    warn(
        f"Kfac's statistics, inverses and velocities were not loaded: {why}. Training goes on with "
        "new ones, from the first step. To keep them, save as .keras, .weights.h5 or a "
        "tf.train.Checkpoint, with Kfac as the optimizer."
    )


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
