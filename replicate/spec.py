"""EstimatorSpec: the result of a model_fn, checked when it is made.

Owns the three modes of a model, and the record with a model's loss, train_op, metrics, predictions
and hooks. It adds nothing to the graph, except that it reshapes a loss of shape [1] to a scalar,
and runs nothing. `replicate_model_fn` merges the specs of the towers; `replicate.Estimator` runs
the result.
"""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import tensorflow as tf

from replicate._types import Nest, Operation, Tensor
from replicate.export.outputs import ExportOutput, check_outputs, completed_outputs
from replicate.keras_metrics import as_metric_pair

v1 = tf.compat.v1

LOSS_METRIC_KEY = "loss"
"""Key of the loss in the results of `Estimator.evaluate`: its mean over the batches."""
AVERAGE_LOSS_METRIC_KEY = "average_loss"
"""Key for a metric of model_fn that is the mean loss over the examples."""


class ModeKeys:
    """Modes of a model_fn.

    Attributes:
      TRAIN: The graph updates the variables.
      EVAL: The graph measures the model on labelled data.
      PREDICT: The graph computes predictions; there are no labels.
    """

    TRAIN = "train"
    EVAL = "eval"
    PREDICT = "infer"


class _Fields(NamedTuple):
    """The fields of EstimatorSpec, unchecked."""

    mode: str
    predictions: Nest
    loss: Tensor | None
    train_op: Operation | None
    eval_metric_ops: dict[str, tuple[Tensor, Operation]]
    export_outputs: dict[str, ExportOutput] | None
    training_chief_hooks: tuple[Any, ...]
    training_hooks: tuple[Any, ...]
    scaffold: Any
    evaluation_hooks: tuple[Any, ...]
    prediction_hooks: tuple[Any, ...]


class EstimatorSpec(_Fields):
    """The model that a model_fn built, ready to be run in one mode.

    Attributes:
      mode: One of `ModeKeys`.
      predictions: A Tensor or a dict of Tensors. Required in PREDICT.
      loss: Scalar. Required in TRAIN and EVAL. A loss of shape [1] is reshaped to a scalar.
      train_op: The operation that makes one training step. Required in TRAIN.
      eval_metric_ops: Dict of metric name to (value, update), as `tf.compat.v1.metrics` makes them.
        An object with `result()` and `updates` becomes such a pair: a metric of a head or of Keras
        2 (tf_keras). A value or an update may also be a nest of Tensors and Operations.
      export_outputs: Dict of signature name to `replicate.export.ExportOutput`, for an exported
        model. In PREDICT one of several must be named "serving_default". A single output is also
        the default; without any, the predictions are.
      training_chief_hooks: Hooks that run in TRAIN, on the chief only.
      training_hooks: Hooks that run in TRAIN, on every worker.
      scaffold: A `tf.compat.v1.train.Scaffold`. None becomes a default one, which is finalized
        when a session is made.
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
        eval_metric_ops: Mapping[str, Any] | None = None,
        export_outputs: Mapping[str, ExportOutput] | None = None,
        training_chief_hooks: Iterable[Any] | None = None,
        training_hooks: Iterable[Any] | None = None,
        scaffold: Any = None,
        evaluation_hooks: Iterable[Any] | None = None,
        prediction_hooks: Iterable[Any] | None = None,
    ) -> "EstimatorSpec":
        """Checks and normalises the fields.

        Raises:
          ValueError: A field that the mode requires is missing, the mode is unknown, the loss is
            not a scalar, a tensor is of another graph, no export output of several is the default,
            or a Keras metric has no update.
          TypeError: A field is of a type that cannot be run, or a metric is of Keras 3.
        """
        _check_mode(mode)
        return super().__new__(
            cls,
            mode=mode,
            predictions=_checked_predictions(mode, predictions),
            loss=_checked_loss(mode, loss),
            train_op=_checked_train_op(mode, train_op),
            eval_metric_ops=_checked_metrics(eval_metric_ops),
            export_outputs=_checked_exports(mode, export_outputs, predictions),
            training_chief_hooks=checked_hooks("training_chief_hooks", training_chief_hooks),
            training_hooks=checked_hooks("training_hooks", training_hooks),
            scaffold=_checked_scaffold(scaffold),
            evaluation_hooks=checked_hooks("evaluation_hooks", evaluation_hooks),
            prediction_hooks=checked_hooks("prediction_hooks", prediction_hooks),
        )

    def _replace(self, **changes: Any) -> "EstimatorSpec":
        """Returns a copy with some fields changed, checked like a new one.

        Raises:
          ValueError: The mode would change, or an unknown field is named.
        """
        unknown = sorted(set(changes) - set(self._fields))
        if unknown:
            raise ValueError(
                f"Cannot replace {unknown} in an EstimatorSpec: its fields are "
                f"{list(self._fields)}. Correct the name."
            )
        if changes.get("mode", self.mode) != self.mode:
            raise ValueError(
                f"Cannot change the mode of an EstimatorSpec from {self.mode!r} to "
                f"{changes['mode']!r}: its graph was built for one mode. Make a new EstimatorSpec."
            )
        return EstimatorSpec(**{**self._asdict(), **changes})


def checked_hooks(argument: str, hooks: Iterable[Any] | None) -> tuple[Any, ...]:
    """Returns hooks as a tuple.

    Raises:
      TypeError: `hooks` is not iterable, or an element is not a hook.
    """
    if not isinstance(hooks, Iterable | None):
        raise TypeError(
            f"{argument} must be a list of hooks, got {hooks!r}. Put a single one into a list."
        )
    checked = tuple(hooks or ())
    for hook in checked:
        if not isinstance(hook, v1.train.SessionRunHook):
            raise TypeError(
                f"{argument} must hold instances of tf.compat.v1.train.SessionRunHook, got "
                f"{hook!r}. Derive the hook from that class and pass an instance."
            )
    return checked


def _check_mode(mode: str) -> None:
    """Raises unless the mode is one of ModeKeys."""
    modes = (ModeKeys.TRAIN, ModeKeys.EVAL, ModeKeys.PREDICT)
    if mode not in modes:
        raise ValueError(
            f"Cannot make an EstimatorSpec: mode is {mode!r}, which is none of {list(modes)}. "
            "Pass on the mode that model_fn received."
        )


def _missing(mode: str, field: str, advice: str) -> ValueError:
    """Returns the error for a field that the mode requires."""
    return ValueError(f"Cannot make an EstimatorSpec for mode {mode!r}: {field} is None. {advice}")


def _checked_predictions(mode: str, predictions: Nest) -> Nest:
    if predictions is None:
        if mode == ModeKeys.PREDICT:
            raise _missing(mode, "predictions", "Pass a Tensor or a dict of Tensors.")
        return {}
    named = predictions if isinstance(predictions, Mapping) else {"predictions": predictions}
    for name, value in named.items():
        if not _is_tensor(value):
            raise TypeError(
                f"Cannot make an EstimatorSpec: predictions must be a Tensor or a dict of Tensors, "
                f"got {value!r} for {name!r}. Convert it with tf.convert_to_tensor."
            )
        _check_graph(f"predictions[{name!r}]" if value is not predictions else name, value)
    return predictions


def _checked_loss(mode: str, loss: Tensor | None) -> Tensor | None:
    if loss is None:
        if mode != ModeKeys.PREDICT:
            raise _missing(mode, "loss", "Pass the scalar that training makes small.")
        return None
    if not _is_tensor(loss):
        raise TypeError(
            f"Cannot make an EstimatorSpec: loss must be a scalar Tensor, got {loss!r}. "
            "Convert it with tf.convert_to_tensor."
        )
    _check_graph("loss", loss)
    if loss.shape.num_elements() not in (None, 1):
        raise ValueError(
            f"Cannot make an EstimatorSpec: loss must be a scalar, got shape {loss.shape} for "
            f"{loss.name}. Take its mean over the batch with tf.reduce_mean."
        )
    return loss if loss.shape.rank in (None, 0) else tf.reshape(loss, [])


def _checked_train_op(mode: str, train_op: Operation | None) -> Operation | None:
    if train_op is None:
        if mode == ModeKeys.TRAIN:
            raise _missing(mode, "train_op", "Pass what optimizer.minimize(loss, ...) returned.")
        return None
    if not _is_runnable(train_op):
        raise TypeError(
            f"Cannot make an EstimatorSpec: train_op must be an Operation or a Tensor, got "
            f"{train_op!r}. Pass what optimizer.minimize(loss, global_step=...) returned."
        )
    _check_graph("train_op", train_op)
    return train_op.op if isinstance(train_op, tf.Variable) else train_op


def _checked_metrics(metrics: Mapping[str, Any] | None) -> dict[str, tuple[Tensor, Operation]]:
    given = _checked_dict("eval_metric_ops", metrics) or {}
    checked = {name: as_metric_pair(name, metric) for name, metric in given.items()}
    for name, pair in checked.items():
        is_pair = isinstance(pair, tuple) and len(pair) == 2
        if not (is_pair and all(_is_runnable(each) for each in tf.nest.flatten(pair))):
            raise TypeError(
                f"Cannot make an EstimatorSpec: eval_metric_ops[{name!r}] must be a pair (value "
                f"Tensor, update Operation), got {pair!r}. Make it with tf.compat.v1.metrics."
            )
        for each in tf.nest.flatten(pair):
            _check_graph(f"eval_metric_ops[{name!r}]", each)
    return checked


def _checked_exports(
    mode: str, outputs: Mapping[str, ExportOutput] | None, predictions: Nest
) -> dict[str, ExportOutput] | None:
    checked = _checked_dict("export_outputs", outputs)
    check_outputs(checked or {})
    return completed_outputs(checked, predictions) if mode == ModeKeys.PREDICT else checked


def _checked_dict(field: str, value: Mapping[str, Any] | None) -> dict[str, Any] | None:
    if value is None:
        return None
    if not isinstance(value, Mapping):
        raise TypeError(
            f"Cannot make an EstimatorSpec: {field} must be a dict with a name for each entry, "
            f"got {value!r}. Wrap it in a dict."
        )
    return dict(value)


def _checked_scaffold(scaffold: Any) -> Any:
    if scaffold is None:
        return v1.train.Scaffold()
    if not isinstance(scaffold, v1.train.Scaffold):
        raise TypeError(
            f"Cannot make an EstimatorSpec: scaffold must be a tf.compat.v1.train.Scaffold, got "
            f"{scaffold!r}. Pass None for the default one."
        )
    return scaffold


def _check_graph(field: str, value: Any) -> None:
    """Raises unless a Tensor, Variable or Operation is of the default graph."""
    default = v1.get_default_graph()
    if not tf.executing_eagerly() and getattr(value, "graph", None) is not default:
        found = getattr(value, "name", value)
        raise ValueError(
            f"Cannot make an EstimatorSpec: {field} is {found!r} of another graph. Build all of it "
            "in the graph that model_fn is called in, which is a new one each time: keep no tensor "
            "of an earlier call, and make no tf.Graph()."
        )


def _is_tensor(value: Any) -> bool:
    return isinstance(value, (tf.Tensor, tf.Variable))


def _is_runnable(value: Any) -> bool:
    return isinstance(value, (tf.Tensor, tf.Variable, tf.Operation))
