"""Checks for programs that mix eager TensorFlow or Keras training with graph mode.

All of `replicate` builds graphs. Entry points call these checks first, so that their errors say so.
"""

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import tensorflow as tf

from replicate.errors import ArgumentTypeError

_KERAS = frozenset({"keras", "tf_keras"})


def is_keras_optimizer(value: Any) -> bool:
    """Returns True for an optimizer of any Keras, or of a class that is derived from one."""
    return _is_of_keras(type(value)) and hasattr(value, "apply_gradients")


def tensorflow_variable(variable: Any) -> Any:
    """Returns the `tf.Variable` of a variable of Keras 3, and anything else as it is."""
    if isinstance(variable, tf.Variable) or not _is_of_keras(type(variable)):
        return variable
    return getattr(variable, "value", variable)


def with_tensorflow_variables(
    args: Sequence[Any], kwargs: Mapping[str, Any]
) -> tuple[list[Any], dict[str, Any]]:
    """Returns arguments of a call; in lists and tuples, variables of Keras 3 as `tf.Variable`."""
    return [_in_list(each) for each in args], {name: _in_list(kwargs[name]) for name in kwargs}


def _in_list(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return [tensorflow_variable(each) for each in value]
    return value


def check_not_eager(what: str) -> None:
    """Refuses a call, `what` as in "x was called with y", where operations run eagerly.

    Raises:
      ValueError: No graph is being built.
    """
    if tf.executing_eagerly():
        raise ValueError(
            f"{what} where TensorFlow executes eagerly, but it runs in graph mode only: call it in "
            "a model_fn that replicate.Estimator trains, or inside of `with "
            "tf.Graph().as_default():`."
        )


def check_no_keras_model(what: str, model_fn: Any) -> None:
    """Refuses a Keras model or layer in place of a model_fn.

    Raises:
      TypeError: It is a model or layer of any Keras, or a class of these.
    """
    kind = model_fn if isinstance(model_fn, type) else type(model_fn)
    if _is_of_keras(kind) and hasattr(kind, "call"):
        raise ArgumentTypeError(
            f"{what}: model_fn is the Keras model or layer {model_fn!r}, but models run in graph "
            "mode here: compile the model and pass it to replicate.model_to_estimator, or pass a "
            "function model_fn(features, labels, mode) that makes the Keras layers or model inside "
            "and returns a replicate.EstimatorSpec."
        )


def check_no_keras_optimizer(what: str, optimizer: Any) -> None:
    """Refuses an optimizer of Keras, or a class of these.

    Raises:
      TypeError: It is an optimizer of any Keras.
    """
    kind = optimizer if isinstance(optimizer, type) else type(optimizer)
    if _is_of_keras(kind) and hasattr(kind, "apply_gradients"):
        raise ArgumentTypeError(
            f"{what} got the Keras optimizer {optimizer!r}, which cannot train in graph mode: wrap "
            "one of tf.compat.v1.train, such as tf.compat.v1.train.AdamOptimizer(0.001)."
        )


@contextlib.contextmanager
def eager_captures_explained(function: str, things: str) -> Iterator[None]:
    """Explains the error of a user's function that uses eager objects, `things`, in a graph.

    Raises:
      ValueError: The function captured an eager Tensor.
    """
    try:
        yield
    except RuntimeError as error:
        if "capture an EagerTensor" not in str(error):
            raise
        raise ValueError(
            f"{function} uses {things} from outside of it, where TensorFlow executes eagerly, but "
            f"{function} runs in graph mode, in a new graph: make them inside of {function}."
        ) from error


def _is_of_keras(kind: type) -> bool:
    return any(base.__module__.partition(".")[0] in _KERAS for base in kind.__mro__)
