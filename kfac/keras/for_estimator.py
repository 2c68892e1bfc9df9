"""The K-FAC of a Keras model that `replicate.model_to_estimator` trains in graphs of its own."""

from collections.abc import Callable, Mapping
from typing import Any

import tensorflow as tf

from kfac.canned import CannedKfac
from kfac.keras.training import Training

v1 = tf.compat.v1

_NUMBERS = ("learning_rate", "damping", "momentum", "weight_decay", "norm_constraint")


def for_estimator(
    training: Training, config: Mapping[str, Any], deserialize: Callable[[Any], Any]
) -> CannedKfac:
    """Returns K-FAC for the graphs of an Estimator, with the numbers as they now are.

    `config` is the optimizer's `get_config()`. `deserialize` is the function of Keras that makes a
    schedule anew.

    Raises:
      ValueError: The settings are adaptive, or name approximations, unknown layers, accumulation,
        another optimizer or variables without weight decay, which an Estimator's K-FAC is told in
        another way.
    """
    settings = training.settings
    refused = {
        "adaptive": settings.adaptive,
        "fisher_approx": settings.fisher_approx,
        "unknown_layers": settings.unknown_layers if settings.unknown_layers != "error" else None,
        "gradient_accumulation_steps": settings.accumulation_steps,
        "optimizer": config.get("optimizer"),
    }
    for name, value in refused.items():
        if value:
            raise ValueError(
                f"Kfac({name}={value!r}) cannot be the optimizer of an Estimator: pass "
                "optimizer=kfac.for_canned(...) to model_to_estimator, or write a model_fn."
            )
    if config["weight_decay"] is not None and not training.trained.all_decay:
        raise ValueError(
            "A Kfac with exclude_from_weight_decay cannot be the optimizer of an Estimator: write "
            "a model_fn, with kfac.PeriodicInvCovUpdateKfacOpt(..., use_weight_decay=True, "
            "decays=lambda variable: 'bias' not in variable.name)."
        )
    numbers = {name: _number(config[name], deserialize) for name in _NUMBERS}
    decay = numbers.pop("weight_decay")
    if decay is not None:
        numbers |= {"use_weight_decay": True, "weight_decay_coeff": decay}
    arguments = dict(settings.arguments)
    mode = arguments.pop("estimation_mode", None)
    return CannedKfac({**arguments, **numbers}, mode, settings.config)


def _number(value: Any, deserialize: Callable[[Any], Any]) -> Any:
    """Returns a number, or a function that computes a schedule's value in the current graph."""
    if not isinstance(value, Mapping):
        return value
    schedule = deserialize(dict(value))
    return lambda: schedule(v1.train.get_or_create_global_step())
