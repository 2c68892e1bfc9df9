"""The rule for arguments of the user's functions: a function receives those that it names.

An input_fn or a model_fn may name any of the known arguments, in any order. One that takes any
keyword receives all of them. `Estimator` and `replicate_model_fn` call a model_fn in the same way.
"""

import inspect
from collections.abc import Callable
from typing import Any, get_args

from replicate._types import ModelFn, Nest, Spec
from replicate.errors import ArgumentTypeError

_MODEL_ARGUMENTS = ("labels", "mode", "params", "config")


def check_model_fn(model_fn: ModelFn) -> None:
    """Checks the signature of a model_fn.

    Args:
      model_fn: fn(features, labels, mode, params, config), in any order, all but features optional.

    Raises:
      TypeError: It is not callable, does not take features, or requires other arguments.
    """
    if not callable(model_fn):
        raise ArgumentTypeError(
            f"model_fn must be a function fn(features, labels, mode, params, config), got "
            f"{model_fn!r}."
        )
    _model_arguments(model_fn)


def takes(model_fn: ModelFn, name: str) -> bool:
    """Returns True if a checked model_fn receives the argument labels, mode, params or config."""
    return name in _model_arguments(model_fn)


def call_model_fn(
    model_fn: ModelFn, features: Nest, labels: Nest, mode: str, params: Any, config: Any
) -> Spec:
    """Calls a checked model_fn with features and those of the other arguments that it names."""
    given = {"labels": labels, "mode": mode, "params": params, "config": config}
    arguments = {name: given[name] for name in _model_arguments(model_fn)}
    if takes_by_name(model_fn, "features"):
        return model_fn(features=features, **arguments)
    return model_fn(features, **arguments)


def named_arguments(
    role: str, function: Callable[..., Any], known: tuple[str, ...], first: str | None = None
) -> list[str]:
    """Returns the names in `known` that a function takes; all if it takes any keyword.

    Args:
      role: Name of the function's role, for errors.
      function: The function.
      known: Arguments that it may receive by name.
      first: Argument that it must take, by name or as its only positional one; None: none.

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
            f"{role} {where(function)} takes the arguments {names}, but must take {first}. "
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
            f"{role} {where(function)} requires the arguments {strange}, but receives only "
            f"{[*([first] if first else []), *known]}. Give the others a default, or bind them "
            "with functools.partial."
        )
    return [name for name in known if anything or name in names]


def where(function: Callable[..., Any]) -> str:
    """Returns name, file and line of a user's function, for an error message."""
    function = inspect.unwrap(function)
    code = getattr(function, "__code__", None)
    name = getattr(function, "__qualname__", repr(function))
    return f"{name} ({code.co_filename}:{code.co_firstlineno})" if code else name


def _model_arguments(model_fn: ModelFn) -> list[str]:
    return named_arguments("model_fn", model_fn, _MODEL_ARGUMENTS, first="features")


def takes_by_name(function: Callable[..., Any], name: str) -> bool:
    """Returns True if a function takes a keyword argument of this name."""
    parameters = inspect.signature(function).parameters
    by_name = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    if name in parameters:
        return parameters[name].kind in by_name
    return any(each.kind is inspect.Parameter.VAR_KEYWORD for each in parameters.values())


def check_choice(name: str, value: object, choices: Any) -> None:
    """Checks an argument that takes one of the strings of a Literal type.

    Raises:
      ValueError: The value is not one of the choices.
    """
    if value not in get_args(choices):
        accepted = ", ".join(map(repr, get_args(choices)))
        raise ValueError(f"{name} must be one of {accepted}; got {value!r}.")
