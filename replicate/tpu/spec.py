"""TPUEstimatorSpec: the result of a model_fn that is written for TPUs.

Owns the record and its translation into a `replicate.EstimatorSpec`, which checks most fields. The
functions of a model_fn that run on the host of a TPU, `eval_metrics` and `host_call`, run here in
the graph of the model; a hook runs the result of a host call in each step.
"""

import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

import tensorflow as tf

from replicate._types import Nest, Operation, Tensor
from replicate.calling import where
from replicate.errors import ArgumentTypeError
from replicate.export.outputs import ExportOutput
from replicate.spec import EstimatorSpec, checked_hooks

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


class _Fields(NamedTuple):
    """The fields of TPUEstimatorSpec, unchecked."""

    mode: str
    predictions: Nest
    loss: Tensor | None
    train_op: Operation | None
    eval_metrics: Any
    export_outputs: Mapping[str, ExportOutput] | None
    scaffold_fn: Callable[[], Any] | None
    host_call: Any
    training_hooks: tuple[Any, ...]
    evaluation_hooks: tuple[Any, ...]
    prediction_hooks: tuple[Any, ...]


class TPUEstimatorSpec(_Fields):
    """The model that a model_fn built, for `TPUEstimator`.

    Attributes:
      mode: One of `ModeKeys`.
      predictions: A Tensor or a dict of Tensors. Required in PREDICT.
      loss: Scalar. Required in TRAIN and EVAL.
      train_op: The operation that makes one training step. Required in TRAIN.
      eval_metrics: A function and its tensors, as a list or as a dict by the names of its
        arguments. The function returns a dict of metrics as `EstimatorSpec.eval_metric_ops` is.
      export_outputs: Dict of signature name to `replicate.export.ExportOutput`.
      scaffold_fn: Function without arguments that returns a `tf.compat.v1.train.Scaffold`, or None.
      host_call: A function and its tensors, like `eval_metrics`. Its result, tensors and
        operations, runs in each step. Writers of `tf.summary` are opened for it.
      training_hooks: Hooks that run in TRAIN.
      evaluation_hooks: Hooks that run in EVAL.
      prediction_hooks: Hooks that run in PREDICT.
    """

    __slots__ = ()

    def __new__(
        cls,
        mode: str,
        predictions: Nest = None,
        loss: Tensor | None = None,
        train_op: Operation | None = None,
        eval_metrics: Any = None,
        export_outputs: Mapping[str, ExportOutput] | None = None,
        scaffold_fn: Callable[[], Any] | None = None,
        host_call: Any = None,
        training_hooks: Iterable[Any] | None = None,
        evaluation_hooks: Iterable[Any] | None = None,
        prediction_hooks: Iterable[Any] | None = None,
    ) -> "TPUEstimatorSpec":
        """Checks what `as_estimator_spec` calls, and the hooks.

        Raises:
          ValueError: eval_metrics or host_call is no pair.
          TypeError: One of their parts, scaffold_fn or a hook is of the wrong kind, or a function
            does not take its tensors.
        """
        check_host_call("eval_metrics", eval_metrics)
        check_host_call("host_call", host_call)
        if scaffold_fn is not None and not callable(scaffold_fn):
            raise ArgumentTypeError(
                "Cannot make a TPUEstimatorSpec: scaffold_fn must be a function without arguments "
                f"that returns a tf.compat.v1.train.Scaffold, got {scaffold_fn!r}. Pass the "
                "function itself, not its result."
            )
        return super().__new__(
            cls,
            mode,
            predictions,
            loss,
            train_op,
            eval_metrics,
            export_outputs,
            scaffold_fn,
            host_call,
            checked_hooks("training_hooks", training_hooks),
            checked_hooks("evaluation_hooks", evaluation_hooks),
            checked_hooks("prediction_hooks", prediction_hooks),
        )

    def as_estimator_spec(self) -> EstimatorSpec:
        """Calls the functions of the spec in the current graph, and returns an EstimatorSpec.

        Returns:
          The spec that `replicate.Estimator` runs. A hook for `host_call` comes after the others.

        Raises:
          ValueError: A field that the mode requires is missing or wrong.
          TypeError: A field is of a type that cannot be run.
        """
        metrics = None if self.eval_metrics is None else call_on_host(self.eval_metrics)
        hooks = () if self.host_call is None else (HostCallHook(call_on_host(self.host_call)),)
        return EstimatorSpec(
            self.mode,
            predictions=self.predictions,
            loss=self.loss,
            train_op=self.train_op,
            eval_metric_ops=metrics,
            export_outputs=self.export_outputs,
            training_hooks=(*self.training_hooks, *hooks),
            scaffold=None if self.scaffold_fn is None else self.scaffold_fn(),
            evaluation_hooks=(*self.evaluation_hooks, *hooks),
            prediction_hooks=(*self.prediction_hooks, *hooks),
        )
