"""Functions of tf.layers, made from the classes: each call makes a layer and applies it."""

import inspect
from collections.abc import Callable, Sequence
from typing import Any

_PLAIN = inspect.Parameter.POSITIONAL_OR_KEYWORD


def functional_form(
    layer: Callable[..., Any],
    name: str,
    has_reuse: bool = True,
    training_before: str = "",
    last: Sequence[str] = (),
) -> Callable[..., Any]:
    """Makes the function of a class of layers.

    Its parameters are `inputs`, those of the class, `reuse` behind `name`, and `training`. With a
    name, `reuse=True` takes the variables of an earlier layer of that name.

    Args:
      layer: The class.
      name: Name of the function.
      has_reuse: False for a layer without variables, which takes no `reuse`.
      training_before: Parameter in front of which `training=False` stands, "" for none.
      last: Parameters that the class has in front of others, and the function at its end.
    """
    parameters = _parameters(layer, has_reuse, training_before)
    signature = inspect.Signature(sorted(parameters, key=lambda each: each.name in last))

    def function(*args: Any, **kwargs: Any) -> Any:
        try:
            given = signature.bind(*args, **kwargs).arguments
        except TypeError as error:
            raise TypeError(f"tf.layers.{name}: {error}.") from None
        inputs = given.pop("inputs")
        of_call = {"training": given.pop("training")} if "training" in given else {}
        if has_reuse:
            given.update(_reuse=given.pop("reuse", None), _scope=given.get("name"))
        return layer(**given)(inputs, **of_call)

    function.__name__ = function.__qualname__ = name
    function.__module__ = layer.__module__
    function.__doc__ = (
        f"Applies a new layer `{layer.__name__}` to inputs, and returns its outputs.\n\n"
        "Arguments and errors are those of the class and of its call."
    )
    vars(function)["__signature__"] = signature
    return function


def _parameters(
    layer: Callable[..., Any], has_reuse: bool, training_before: str
) -> list[inspect.Parameter]:
    parameters = [inspect.Parameter("inputs", _PLAIN)]
    for parameter in inspect.signature(layer).parameters.values():
        if parameter.kind is inspect.Parameter.VAR_KEYWORD:
            continue
        if parameter.name == training_before:
            parameters.append(inspect.Parameter("training", _PLAIN, default=False))
        parameters.append(parameter.replace(annotation=inspect.Parameter.empty))
        if parameter.name == "name" and has_reuse:
            parameters.append(inspect.Parameter("reuse", _PLAIN, default=None))
    return parameters
