"""The Estimator of tf.contrib.learn: fit, evaluate and predict on functions or arrays."""

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from replicate.compat.contrib.learn.exports import receiver_fn
from replicate.compat.contrib.learn.inputs import numpy_input
from replicate.compat.contrib.learn.metric_spec import measured
from replicate.compat.contrib.learn.monitors import replace_monitors_with_hooks
from replicate.estimator.estimator import Estimator as _Estimator
from replicate.export import PredictOutput
from replicate.spec import EstimatorSpec, ModeKeys

__all__ = ["Estimator", "LearnMethods", "ModelFnOps"]
_SERVING = "serving_default"


def ModelFnOps(  # noqa: N802  # It was a class.
    mode: str,
    predictions: Any = None,
    loss: Any = None,
    train_op: Any = None,
    eval_metric_ops: Mapping[str, Any] | None = None,
    output_alternatives: Mapping[str, Any] | None = None,
    training_chief_hooks: Iterable[Any] | None = None,
    training_hooks: Iterable[Any] | None = None,
    scaffold: Any = None,
) -> EstimatorSpec:
    """Makes an EstimatorSpec.

    Args:
      mode: One of `ModeKeys`.
      predictions: A tensor, or a dict of them.
      loss: The loss, a scalar.
      train_op: Operation of a training step.
      eval_metric_ops: (value, update) by the names of metrics.
      output_alternatives: (problem type, tensors) by the names of exported outputs.
      training_chief_hooks: Hooks of the chief.
      training_hooks: Hooks of all workers.
      scaffold: Scaffold of the training.

    Returns:
      The spec.
    """
    outputs = {name: PredictOutput(each[1]) for name, each in (output_alternatives or {}).items()}
    if mode == ModeKeys.PREDICT and not outputs:
        outputs = {_SERVING: PredictOutput(predictions)}
    return EstimatorSpec(
        mode,
        predictions=predictions,
        loss=loss,
        train_op=train_op,
        eval_metric_ops=dict(eval_metric_ops or {}),
        export_outputs=outputs if mode == ModeKeys.PREDICT else None,
        training_chief_hooks=tuple(training_chief_hooks or ()),
        training_hooks=tuple(training_hooks or ()),
        scaffold=scaffold,
    )


class LearnMethods(_Estimator):
    """The methods of tf.contrib.learn on an Estimator; an abstract class."""

    def fit(
        self,
        x: Any = None,
        y: Any = None,
        input_fn: Callable[..., Any] | None = None,
        steps: int | None = None,
        batch_size: int | None = None,
        monitors: Iterable[Any] | None = None,
        max_steps: int | None = None,
    ) -> Any:
        """Trains the model.

        Args:
          x: Features: an array [examples, …] or a dict of arrays, read in a random order, again and
            again.
          y: Labels, arrays.
          input_fn: As for `train`, in place of x and y.
          steps: Steps to make.
          batch_size: Examples of a batch of x, 128 if None.
          monitors: Hooks and monitors.
          max_steps: Global step to stop at.

        Returns:
          This model.

        Raises:
          ValueError: x and input_fn are both given, or neither.
        """
        input_fn = _input("fit", x, y, input_fn, batch_size, None)
        hooks = replace_monitors_with_hooks(monitors, self)
        return self.train(input_fn, hooks=hooks, steps=steps, max_steps=max_steps)

    def partial_fit(self, *args: Any, **kwargs: Any) -> Any:
        """Trains the model; arguments as for `fit`."""
        return self.fit(*args, **kwargs)

    def evaluate(  # type: ignore[override]
        self,
        x: Any = None,
        y: Any = None,
        input_fn: Callable[..., Any] | None = None,
        feed_fn: None = None,
        batch_size: int | None = None,
        steps: int | None = None,
        metrics: Mapping[str, Any] | None = None,
        name: str | None = None,
        checkpoint_path: Any = None,
        hooks: Iterable[Any] | None = None,
        log_progress: bool = True,
    ) -> dict[str, Any]:
        """Measures the model.

        Args:
          x: Features as for `fit`, or an input_fn.
          y: Labels, arrays.
          input_fn: As for `Estimator.evaluate`, in place of x and y.
          feed_fn: Not used.
          batch_size: Examples of a batch of x, 128 if None.
          steps: Batches to take, None for all.
          metrics: Further metrics by their names: a `MetricSpec`, or a function of predictions and
            labels.
          name: Name of the evaluation.
          checkpoint_path: Checkpoint, None for the newest.
          hooks: Hooks of the evaluation.
          log_progress: Not used.

        Returns:
          The metrics by name.

        Raises:
          ValueError: x and input_fn are both given, or neither.
        """
        del feed_fn, log_progress
        input_fn = _input("evaluate", x, y, input_fn, batch_size, 1)
        with_metrics: Any = measured(self, metrics)
        return _Estimator.evaluate(with_metrics, input_fn, steps, hooks, checkpoint_path, name)

    def predict(  # type: ignore[override]
        self,
        x: Any = None,
        input_fn: Callable[..., Any] | None = None,
        batch_size: int | None = None,
        outputs: Iterable[str] | None = None,
        as_iterable: bool = True,
        **kwargs: Any,
    ) -> Any:
        """Returns predictions.

        Args:
          x: Features as for `fit`, or an input_fn.
          input_fn: As for `Estimator.predict`, in place of x.
          batch_size: Examples of a batch of x, 128 if None.
          outputs: Keys of the predictions, None for all.
          as_iterable: True for an iterator over examples, False for a list.
          **kwargs: Further arguments of `Estimator.predict`.

        Raises:
          ValueError: x and input_fn are both given, or neither.
        """
        input_fn = _input("predict", x, None, input_fn, batch_size, 1)
        keys = kwargs.pop("predict_keys", None) if outputs is None else list(outputs)
        found: Iterator[Any] = super().predict(input_fn, keys, **kwargs)
        return found if as_iterable else list(found)

    def export_savedmodel(  # type: ignore[override]
        self, export_dir_base: Any, serving_input_fn: Callable[[], Any], *args: Any, **kwargs: Any
    ) -> Any:
        """Exports a SavedModel, and returns its path.

        `serving_input_fn` returns `InputFnOps` or a ServingInputReceiver. The other arguments are
        those of `export_saved_model`; default_output_alternative_key is not used.
        """
        del args
        known = ("assets_extra", "as_text", "checkpoint_path")
        settings = {name: kwargs[name] for name in known if name in kwargs}
        return self.export_saved_model(export_dir_base, receiver_fn(serving_input_fn), **settings)


class Estimator(LearnMethods):
    """The model of a model_fn.

    A model_fn is a function of features and labels, of any name, and of mode, params, config and
    model_dir by name. It returns `ModelFnOps`, or (predictions, loss, train_op).
    """

    def __init__(
        self,
        model_fn: Callable[..., Any],
        model_dir: Any = None,
        config: Any = None,
        params: Any = None,
        feature_engineering_fn: Callable[[Any, Any], Any] | None = None,
    ) -> None:
        """Keeps the arguments.

        `feature_engineering_fn` takes features and labels and returns both, changed.
        """
        super().__init__(_adapted(model_fn, feature_engineering_fn), model_dir, config, params)


def _adapted(model_fn: Callable[..., Any], change: Callable[[Any, Any], Any] | None) -> Any:
    names = set(inspect.signature(model_fn).parameters)

    def adapted(features: Any, labels: Any, mode: str, params: Any, config: Any) -> EstimatorSpec:
        if change is not None:
            features, labels = change(features, labels)
        given = {"mode": mode, "params": params, "config": config, "model_dir": config.model_dir}
        built = model_fn(
            features, labels, **{name: value for name, value in given.items() if name in names}
        )
        return ModelFnOps(mode, *built) if type(built) in (tuple, list) else built

    return adapted


def _input(
    method: str,
    x: Any,
    y: Any,
    input_fn: Callable[..., Any] | None,
    batch_size: int | None,
    epochs: int | None,
) -> Callable[..., Any]:
    if callable(x) and input_fn is None:
        return x  # The runtime gives an input_fn first.
    if (x is None) == (input_fn is None):
        raise ValueError(
            f"{method} takes x or input_fn, got "
            f"{'neither' if x is None else 'both'}. x are arrays, input_fn is a function."
        )
    if input_fn is not None:
        return input_fn
    return numpy_input(x, y, batch_size, epochs, shuffles=epochs is None)
