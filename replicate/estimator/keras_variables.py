"""Variables of Keras 3 in a model_fn, where optimizers of `tf.compat.v1.train` take `tf.Variable`.

While `known_variables` is entered, these optimizers take the variables that layers and models of
Keras 3 have, and `layer.trainable = False` keeps variables out of
`tf.compat.v1.trainable_variables()`, which is what optimizers train by default.
"""

import functools
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any

import tensorflow as tf

from replicate.graph_mode import tensorflow_variable, with_tensorflow_variables
from replicate.unmodified.shared_patch import SharedPatch

v1 = tf.compat.v1


@contextmanager
def known_variables() -> Iterator[None]:
    """Lets optimizers take variables of Keras 3 inside the context; Keras 3 has been imported."""
    with ExitStack() as stack:
        for patch in (_optimizers, _variables, _layers):
            stack.enter_context(patch.entered())
        yield


def _with_variables(method: Callable[..., Any]) -> Callable[..., Any]:
    """Returns `minimize` or `compute_gradients` of an optimizer, which takes any variables."""

    @functools.wraps(method)
    def taking(optimizer: Any, loss: Any, *args: Any, **kwargs: Any) -> Any:
        given, named = with_tensorflow_variables(args, kwargs)
        return method(optimizer, loss, *given, **named)

    return taking


def _with_pairs(method: Callable[..., Any]) -> Callable[..., Any]:
    """Returns `apply_gradients` of an optimizer, which takes any variables."""

    @functools.wraps(method)
    def taking(optimizer: Any, pairs: Iterable[tuple[Any, Any]], *args: Any, **kwargs: Any) -> Any:
        known = [(gradient, tensorflow_variable(variable)) for gradient, variable in pairs]
        return method(optimizer, known, *args, **kwargs)

    return taking


def _optimizer_methods() -> tuple[Any, Mapping[str, Any]]:
    kind = v1.train.Optimizer
    return kind, {
        "minimize": _with_variables(kind.minimize),
        "compute_gradients": _with_variables(kind.compute_gradients),
        "apply_gradients": _with_pairs(kind.apply_gradients),
    }


def _variable_properties() -> tuple[Any, Mapping[str, Any]]:
    kind = sys.modules["keras"].Variable
    trainable = kind.trainable

    def changed(variable: Any, value: bool) -> None:
        trainable.fset(variable, value)
        _note(variable)

    return kind, {"trainable": property(trainable.fget, changed, doc=trainable.__doc__)}


def _layer_methods() -> tuple[Any, Mapping[str, Any]]:
    kind = sys.modules["keras"].layers.Layer
    original = kind.add_weight

    @functools.wraps(original)
    def add_weight(layer: Any, *args: Any, **kwargs: Any) -> Any:
        made = original(layer, *args, **kwargs)
        if not layer.trainable and made.trainable:
            made.trainable = False
        return made

    return kind, {"add_weight": add_weight}


def _note(variable: Any) -> None:
    """Adds a variable to the graph's trainable ones, or takes it from them."""
    if tf.executing_eagerly():
        return
    value = tensorflow_variable(variable)
    if not isinstance(value, tf.Variable) or not _is_here(value):
        return
    trained = v1.get_collection_ref(v1.GraphKeys.TRAINABLE_VARIABLES)
    others = [each for each in trained if each is not value]
    trained[:] = [*others, value] if variable.trainable else others


def _is_here(variable: tf.Variable) -> bool:
    return getattr(variable, "graph", None) is v1.get_default_graph()


_optimizers = SharedPatch(_optimizer_methods)
_variables = SharedPatch(_variable_properties)
_layers = SharedPatch(_layer_methods)
