"""Calls of the user's functions: input_fn, model_fn and receiver functions.

Owns the rule for arguments: an input_fn or a model_fn receives those of the known arguments that it
names, by name and in any order. `input_batches.py` and `estimator.py` call it.
"""

import inspect
from collections.abc import Callable
from typing import Any

from replicate._types import ModelFn, Nest
from replicate.errors import ArgumentTypeError
from replicate.estimator.run_config import RunConfig
from replicate.spec import EstimatorSpec

_INPUT_ARGUMENTS = ("mode", "params", "config")
_MODEL_ARGUMENTS = ("labels", "mode", "params", "config")


def call_input_fn(input_fn: Callable[..., Any], mode: str, params: Any, config: RunConfig) -> Any:
    """Calls input_fn with those of mode, params and config that it names; returns its result.

    Raises:
      TypeError: input_fn is not callable or requires other arguments.
    """
    if not callable(input_fn):
        raise TypeError(
            f"input_fn must be a function that returns a dataset or (features, labels), got "
            f"{input_fn!r}. Pass the function itself, not its result."
        )
    named = _named_arguments("input_fn", input_fn, _INPUT_ARGUMENTS)
    given = {"mode": mode, "params": params, "config": config}
    return input_fn(**{name: given[name] for name in named})


def check_model_fn(model_fn: ModelFn, params: Any) -> None:
    """Checks the signature of a model_fn.

    Args:
      model_fn: fn(features, labels, mode, params, config), in any order, all but features optional.
      params: The user's params, None without any.

    Raises:
      TypeError: It is not callable, does not take features, or requires other arguments.
      ValueError: params are given, and it does not name params.
    """
    if not callable(model_fn):
        raise ArgumentTypeError(
            f"model_fn must be a function fn(features, labels, mode, params, config), got "
            f"{model_fn!r}."
        )
    named = _named_arguments("model_fn", model_fn, _MODEL_ARGUMENTS, first="features")
    if params is not None and "params" not in named:
        raise ValueError(
            f"params are given, but model_fn {_where(model_fn)} does not name an argument params. "
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
    named = _named_arguments("model_fn", model_fn, _MODEL_ARGUMENTS, first="features")
    if labels is not None and "labels" not in named:
        raise ValueError(
            f"input_fn returned labels, but model_fn {_where(model_fn)} does not name an argument "
            "labels. Add it to its signature, or return features only."
        )
    given = {"labels": labels, "mode": mode, "params": params, "config": config}
    arguments = {name: given[name] for name in named}
    if _takes_by_name(model_fn, "features"):
        spec = model_fn(features=features, **arguments)
    else:
        spec = model_fn(features, **arguments)
    if not isinstance(spec, EstimatorSpec):
        raise ArgumentTypeError(
            f"model_fn {_where(model_fn)} must return a replicate.EstimatorSpec in mode {mode!r}, "
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
            f"The input receiver function {_where(receiver_fn)} must return a receiver of "
            f"replicate.export, such as ServingInputReceiver, got {receiver!r}."
        )
    return receiver


def _named_arguments(
    role: str, function: Callable[..., Any], known: tuple[str, ...], first: str | None = None
) -> list[str]:
    """Returns the names in `known` that a function takes; all if it takes any keyword.

    Raises:
      TypeError: The function lacks the argument `first`, or requires one that is not in `known`.
    """
    parameters = list(inspect.signature(function).parameters.values())
    kinds = {parameter.kind for parameter in parameters}
    anything = inspect.Parameter.VAR_KEYWORD in kinds
    names = [parameter.name for parameter in parameters]
    takes_first = anything or first in names or inspect.Parameter.VAR_POSITIONAL in kinds
    if first is not None and not takes_first:
        raise ArgumentTypeError(
            f"{role} {_where(function)} takes the arguments {names}, but must take {first}. "
            "Correct its signature."
        )
    strange = [
        parameter.name
        for parameter in parameters
        if parameter.name not in (*known, first)
        and parameter.default is parameter.empty
        and parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
    ]
    if strange:
        raise ArgumentTypeError(
            f"{role} {_where(function)} requires the arguments {strange}, but receives only "
            f"{[*([first] if first else []), *known]}. Give the others a default, or bind them "
            "with functools.partial."
        )
    return [name for name in known if anything or name in names]


def _takes_by_name(function: Callable[..., Any], name: str) -> bool:
    """Returns True if a function takes a keyword argument of this name."""
    parameters = inspect.signature(function).parameters
    by_name = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    if name in parameters:
        return parameters[name].kind in by_name
    return any(each.kind is inspect.Parameter.VAR_KEYWORD for each in parameters.values())


def _where(function: Callable[..., Any]) -> str:
    """Returns name, file and line of a user's function, for an error message."""
    code = getattr(function, "__code__", None)
    name = getattr(function, "__qualname__", repr(function))
    return f"{name} ({code.co_filename}:{code.co_firstlineno})" if code else name
