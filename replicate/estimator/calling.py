"""Calls of the user's functions by an `Estimator`: input_fn, model_fn and receiver functions.

Which arguments they receive is the rule of `replicate.calling`. `input_batches.py` and
`estimator.py` call this.
"""

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from replicate import calling
from replicate._types import ModelFn, Nest
from replicate.calling import where
from replicate.errors import ArgumentTypeError
from replicate.estimator.run_config import RunConfig
from replicate.spec import EstimatorSpec


def call_input_fn(
    input_fn: Callable[..., Any],
    mode: str,
    params: Any,
    config: RunConfig,
    replicas: int | None = None,
) -> Any:
    """Calls input_fn with those of mode, params and config that it names; returns its result.

    With a strategy of tf.distribute, for so many replicas, it may name input_context, too.

    Raises:
      TypeError: input_fn is not callable or requires other arguments.
    """
    if not callable(input_fn):
        raise TypeError(
            f"input_fn must be a function that returns a dataset or (features, labels), got "
            f"{input_fn!r}. Pass the function itself, not its result."
        )
    given = {"mode": mode, "params": params, "config": config}
    if replicas is not None:
        given["input_context"] = tf.distribute.InputContext(num_replicas_in_sync=replicas)
    named = calling.named_arguments("input_fn", input_fn, tuple(given))
    return input_fn(**{name: given[name] for name in named})


def check_model_fn(model_fn: ModelFn, params: Any) -> None:
    """Checks the signature of a model_fn, which must name params if some are given.

    Raises:
      TypeError: It is not callable, does not take features, or requires other arguments.
      ValueError: params are given, and it does not name params.
    """
    calling.check_model_fn(model_fn)
    if params is not None and not calling.takes(model_fn, "params"):
        raise ValueError(
            f"params are given, but model_fn {where(model_fn)} does not name an argument params. "
            "Add it to its signature, or leave params out."
        )


def call_model_fn(
    model_fn: ModelFn,
    features: Nest,
    labels: Nest,
    mode: str,
    params: Any,
    config: RunConfig,
) -> EstimatorSpec:
    """Calls model_fn with those of the arguments that it names; returns its spec.

    Raises:
      ValueError: There are labels and model_fn does not name labels.
      TypeError: model_fn returns something else than an EstimatorSpec.
    """
    if labels is not None and not calling.takes(model_fn, "labels"):
        raise ValueError(
            f"input_fn returned labels, but model_fn {where(model_fn)} does not name an argument "
            "labels. Add it to its signature, or return features only."
        )
    spec = calling.call_model_fn(model_fn, features, labels, mode, params, config)
    if not isinstance(spec, EstimatorSpec):
        raise ArgumentTypeError(
            f"model_fn {where(model_fn)} must return a replicate.EstimatorSpec in mode {mode!r}, "
            f"got {spec!r}. Look for a branch that returns nothing."
        )
    return spec


def call_receiver_fn(receiver_fn: Callable[[], Any]) -> Any:
    """Calls an input receiver function and returns its receiver.

    Raises:
      TypeError: It is not callable, or returns something else.
    """
    if not callable(receiver_fn):
        raise ArgumentTypeError(
            f"An input receiver function must be callable without arguments, got {receiver_fn!r}. "
            "Make one with replicate.export.build_raw_serving_input_receiver_fn."
        )
    receiver = receiver_fn()
    if not (hasattr(receiver, "features") and hasattr(receiver, "receiver_tensors")):
        raise TypeError(
            f"The input receiver function {where(receiver_fn)} must return a receiver of "
            f"replicate.export, such as ServingInputReceiver, got {receiver!r}."
        )
    return receiver
