"""The recipe of a Keras model: what is needed to make it anew in a graph.

A Keras model belongs to the graph it was made in, or to eager execution. So its configuration is
read once, and each tower makes a model from it. `TowerScopes` lets the towers share the variables.
"""

import contextlib
import copy
import dataclasses
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import tensorflow as tf

from replicate._types import Tensor, Variable
from replicate.errors import ArgumentTypeError
from replicate.estimator.keras_names import build_with_new_names
from replicate.keras_model.kept_classes import kept_classes

_PACKAGES = ("keras", "tf_keras")


@dataclasses.dataclass(frozen=True)
class ModelRecipe:
    """Description of a Keras model, of which one is made in the default graph.

    Attributes:
      kind: Class of the model.
      config: Its configuration.
      custom_objects: Classes and functions that the configuration names.
      package: "keras" or "tf_keras", the Keras that the model is of.
      inputs: Names of its inputs; empty for a model whose inputs have no names.
      outputs: Names of its outputs; empty for a model whose outputs have no names.
      input_shapes: Shapes of its inputs, [batch, ...]; empty if they are not known.
    """

    kind: type
    config: Mapping[str, Any]
    custom_objects: Mapping[str, Any]
    package: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    input_shapes: tuple[tf.TensorShape, ...]

    @property
    def keras(self) -> Any:
        """The module of Keras."""
        return sys.modules[self.package]

    @property
    def is_keras_3(self) -> bool:
        """True for Keras 3 or later."""
        return int(self.keras.__version__.partition(".")[0]) >= 3

    def scope(self) -> contextlib.AbstractContextManager[None]:
        """Returns a context in which Keras knows the custom objects."""
        scope: contextlib.AbstractContextManager[None]
        scope = self.keras.utils.custom_object_scope(dict(self.custom_objects))
        return scope

    def make(self) -> Any:
        """Makes the model, not compiled."""
        with self.scope():
            return self.kind.from_config(copy.deepcopy(self.config))  # type: ignore[attr-defined]


def recipe_of(model: Any, custom_objects: Mapping[str, Any] | None) -> ModelRecipe:
    """Reads the recipe of a model of Keras 3 or tf_keras.

    Raises:
      TypeError: It is no Keras model, or a model without `get_config`.
    """
    package = _package_of(model)
    if package is None:
        raise ArgumentTypeError(
            "model_to_estimator: keras_model must be a Keras model, got "
            f"{type(model).__name__} {model!r}. Pass a compiled keras.Model."
        )
    keras = sys.modules[package]
    with _made_anew(model), keras.utils.custom_object_scope(dict(custom_objects or {})):
        config = model.get_config()
    return ModelRecipe(
        type(model),
        config,
        dict(custom_objects or {}),
        package,
        tuple(_input_names(model)),
        tuple(_output_names(model, keras)),
        tuple(tf.TensorShape(each.shape) for each in _inputs(model)),
    )


def weight_names(model: Any, recipe: ModelRecipe) -> list[str]:
    """Returns the names of a model's weights in a graph of the runtime, where one is made of it.

    Raises:
      TypeError: The configuration does not tell how to make the model.
    """
    with _made_anew(model), kept_classes(recipe.keras), tf.Graph().as_default():
        return build_with_new_names(
            lambda: [variable_of(weight).op.name for weight in recipe.make().weights]
        )


@contextlib.contextmanager
def _made_anew(model: Any) -> Iterator[None]:
    """Explains the errors of a model that its configuration does not describe."""
    try:
        yield
    except (NotImplementedError, TypeError) as error:
        raise ArgumentTypeError(
            f"model_to_estimator: the model {model.name!r} of class {type(model).__name__} cannot "
            "be made anew in a graph, since its get_config() does not tell its constructor's "
            f"arguments ({error}). Give the class get_config and from_config, or make the model "
            "of keras.Input and layers."
        ) from error


def variable_of(weight: Any) -> Variable:
    """Returns the `tf.Variable` of a weight of any Keras."""
    return weight if isinstance(weight, tf.Variable) else weight.value


def _package_of(model: Any) -> str | None:
    for base in type(model).__mro__:
        package = base.__module__.partition(".")[0]
        if package in _PACKAGES and hasattr(base, "compile"):
            return package
    return None


def _output_names(model: Any, keras: Any) -> Sequence[str]:
    names: Sequence[str] = getattr(model, "output_names", None) or ()
    if not names and isinstance(model, keras.Sequential) and model.layers:
        return [model.layers[-1].name]
    return names


def _input_names(model: Any) -> Sequence[str]:
    names: Sequence[str] | None = getattr(model, "input_names", None)
    if names is not None:
        return names
    return [each.name for each in _inputs(model)]


def _inputs(model: Any) -> Sequence[Tensor]:
    return getattr(model, "inputs", None) or ()
