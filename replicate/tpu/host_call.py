"""Functions of a model_fn that run on the host of a TPU, and here in the graph of the model.

Owns the checks and calls of `eval_metrics` and `host_call`, pairs of a function and its tensors,
and the hook that runs the result of a host call in each step.
"""

import inspect
from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from replicate._types import Nest
from replicate.calling import where
from replicate.errors import ArgumentTypeError

v1 = tf.compat.v1

_WRITERS = ("CreateSummaryFileWriter", "CreateSummaryDbWriter")


def check_host_call(field: str, call: Any) -> None:
    """Checks a pair of a function and a list or dict of tensors, or None.

    Raises:
      ValueError: It is no pair.
      TypeError: The parts are of the wrong kind, or the function does not take these tensors.
    """
    if call is None:
        return
    if not isinstance(call, tuple | list) or len(call) != 2:
        raise ValueError(
            f"Cannot make a TPUEstimatorSpec: {field} must be a pair (function, tensors), got "
            f"{call!r}. Pass the function and a list or dict of its arguments."
        )
    function, tensors = call
    if not callable(function):
        raise ArgumentTypeError(
            f"Cannot make a TPUEstimatorSpec: {field}[0] must be a function, got {function!r}. "
            "Pass the function itself, not its result."
        )
    if not isinstance(tensors, tuple | list | Mapping):
        raise ArgumentTypeError(
            f"Cannot make a TPUEstimatorSpec: {field}[1] must be a list of tensors, or a dict of "
            f"them by the names of the function's arguments, got {tensors!r}. Put a single one "
            "into a list."
        )
    _check_arguments(field, function, tensors)


def call_on_host(call: Any) -> Any:
    """Calls the function of a checked pair with its tensors, and returns its result."""
    function, tensors = call
    return function(**tensors) if isinstance(tensors, Mapping) else function(*tensors)


class HostCallHook(v1.train.SessionRunHook):
    """Runs the result of a host call in each step.

    Writers of `tf.summary` that the graph has when the hook is made are opened with the session,
    and flushed at its end.
    """

    def __init__(self, fetches: Nest):
        """Adds the operations that flush the writers to the default graph."""
        self._fetches = fetches
        operations = v1.get_default_graph().get_operations()
        self._openings = [each for each in operations if each.type in _WRITERS]
        with v1.device("/cpu:0"):
            self._flushes = [
                tf.raw_ops.FlushSummaryWriter(writer=each.inputs[0]) for each in self._openings
            ]

    def after_create_session(self, session: v1.Session, coord: Any) -> None:
        """Opens the writers."""
        del coord
        session.run(self._openings)

    def before_run(self, run_context: Any) -> Any:
        """Returns what is run in the step."""
        del run_context
        return None if self._fetches is None else v1.train.SessionRunArgs(self._fetches)

    def end(self, session: v1.Session) -> None:
        """Flushes the writers."""
        session.run(self._flushes)


def _check_arguments(field: str, function: Any, tensors: Any) -> None:
    try:
        signature = inspect.signature(function)
    except ValueError:  # Of a function that is not written in Python.
        return
    try:
        if isinstance(tensors, Mapping):
            signature.bind(**tensors)
        else:
            signature.bind(*tensors)
    except TypeError as error:
        given = list(tensors) if isinstance(tensors, Mapping) else f"{len(tensors)} tensors"
        raise ArgumentTypeError(
            f"Cannot make a TPUEstimatorSpec: the function of {field}, {where(function)}, takes "
            f"{signature}, but {field}[1] gives it {given}: {error}. Pass one tensor for each "
            "argument."
        ) from error
