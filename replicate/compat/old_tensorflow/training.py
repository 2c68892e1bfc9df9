"""Parts of tf.estimator's training that libraries take from its private modules."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import tensorflow as tf

import replicate
from replicate._types import ModelFn
from replicate.calling import check_model_fn, takes
from replicate.estimator.checkpoints.fallback import newest_checkpoint
from replicate.estimator.checkpoints.reading import read_variable
from replicate.estimator.exporters import Exporter, LatestExporter, ReceiverFn

v1 = tf.compat.v1


def load_global_step(checkpoint_dir: str) -> int:
    """Returns the global step of the newest checkpoint of a folder, 0 if there is none."""
    newest = newest_checkpoint(checkpoint_dir)
    return 0 if newest is None else int(read_variable(newest, "global_step"))


def verify_model_fn_args(model_fn: ModelFn, params: Any) -> None:
    """Checks the signature of a model_fn.

    Raises:
      TypeError: It does not take features, or requires arguments that a model_fn never gets.
      ValueError: There are params, and it does not take them.
    """
    check_model_fn(model_fn)
    if params is not None and not takes(model_fn, "params"):
        raise ValueError(f"model_fn {model_fn!r} must take the argument params, which are given.")


def assert_eval_spec(eval_spec: Any) -> None:
    """Raises a TypeError for what is no EvalSpec."""
    if not isinstance(eval_spec, replicate.EvalSpec):
        raise TypeError(f"eval_spec must be an EvalSpec, got {eval_spec!r}.")


def maybe_overwrite_model_dir_and_session_config(config: Any, model_dir: str | None) -> Any:
    """Returns a config with a model_dir: a RunConfig, None for the default one.

    Raises:
      ValueError: Both name a model_dir, and the two are different.
    """
    config = replicate.RunConfig() if config is None else config
    if model_dir is None or config.model_dir == model_dir:
        return config
    if config.model_dir is not None:
        raise ValueError(
            f"model_dir is {model_dir!r}, and that of the RunConfig is {config.model_dir!r}: give "
            "one of them."
        )
    return config.replace(model_dir=model_dir)


def should_run_distribute_coordinator(config: Any) -> bool:
    """Returns False: Estimators run clusters themselves."""
    del config
    return False


class SavedModelExporter(LatestExporter):
    """Exports the model whenever it is asked to, and keeps all exports."""

    def __init__(
        self,
        name: str,
        serving_input_receiver_fn: ReceiverFn,
        assets_extra: Mapping[str, str] | None = None,
        as_text: bool = False,
    ) -> None:
        """Stores the arguments, those of `replicate.FinalExporter`."""
        super().__init__(name, serving_input_receiver_fn, assets_extra, as_text, None)


class EvalResult(NamedTuple):
    """Result of an evaluation, for a `ContinuousEvalListener`."""

    status: str = "evaluated"
    metrics: Mapping[str, Any] | None = None
    checkpoint_path: str | None = None


class ContinuousEvalListener:
    """Is told of the evaluations of an evaluator, and may end it."""

    def before_eval(self) -> bool:
        """Returns False to end the evaluator before an evaluation."""
        return True

    def after_eval(self, eval_result: EvalResult) -> bool:
        """Returns False to end the evaluator after an evaluation."""
        del eval_result
        return True


class TrainingExecutor:
    """Trains and evaluates, as `replicate.train_and_evaluate` does, for a listener, too."""

    def __init__(
        self,
        estimator: Any,
        train_spec: Any,
        eval_spec: Any,
        train_hooks: Any = None,
        continuous_eval_listener: ContinuousEvalListener | None = None,
    ) -> None:
        """Stores the Estimator, its specs, further hooks of training, and the listener."""
        self._estimator = estimator
        self._train_spec = train_spec
        self._eval_spec = eval_spec
        self._train_hooks = tuple(train_hooks or ())
        self._listener = continuous_eval_listener

    @property
    def estimator(self) -> Any:
        """The Estimator."""
        return self._estimator

    def run(self) -> tuple[dict[str, Any] | None, list[Any]]:
        """Does the work of this process, and returns what `replicate.train_and_evaluate` does.

        The listener is told of an evaluator's evaluations only.
        """
        spec = self._train_spec
        hooks = (*spec.hooks, *self._train_hooks)
        train_spec = replicate.TrainSpec(
            spec.input_fn, spec.max_steps, hooks, spec.saving_listeners
        )
        eval_spec, told = self._eval_spec, None
        if self._listener is not None and self._estimator.config.task_type == "evaluator":
            told = _ToldExporter(self._listener)
            listening = (*eval_spec.hooks, _ToldHook(self._listener.before_eval))
            exporters = (*eval_spec.exporters, told)
            eval_spec = eval_spec._replace(hooks=listening, exporters=exporters)
        try:
            return replicate.train_and_evaluate(self._estimator, train_spec, eval_spec)
        except _EvaluatorEndsError:
            return None if told is None else told.results, []


class _EvaluatorEndsError(Exception):
    """A listener ended the evaluator."""


class _ToldHook(v1.train.SessionRunHook):
    """Asks a listener before an evaluation."""

    def __init__(self, goes_on: Callable[[], bool]) -> None:
        self._goes_on = goes_on

    def begin(self) -> None:
        """Ends the evaluator if the listener says so."""
        if self._goes_on() is False:
            raise _EvaluatorEndsError


class _ToldExporter(Exporter):
    """Tells a listener of each evaluation, and exports nothing."""

    def __init__(self, listener: ContinuousEvalListener) -> None:
        self._listener = listener
        self.results: dict[str, Any] | None = None

    @property
    def name(self) -> str:
        """Name that no other exporter has."""
        return "told to a listener"

    def export(
        self,
        estimator: Any,
        export_path: str,
        checkpoint_path: str,
        eval_result: Mapping[str, Any] | None,
        is_the_final_export: bool,
    ) -> None:
        """Ends the evaluator if the listener says so."""
        del estimator, export_path, is_the_final_export
        self.results = None if eval_result is None else dict(eval_result)
        result = EvalResult(metrics=eval_result, checkpoint_path=checkpoint_path)
        if self._listener.after_eval(result) is False:
            raise _EvaluatorEndsError
