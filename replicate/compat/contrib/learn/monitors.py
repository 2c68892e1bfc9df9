"""tf.contrib.learn.monitors: session hooks under their older names, and validation in training."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import tensorflow as tf

from replicate import public
from replicate.compat.contrib.learn.inputs import numpy_input
from replicate.estimator.estimator import Estimator

v1 = tf.compat.v1


class ValidationMonitor(v1.train.SessionRunHook):
    """Evaluates each new checkpoint in training, and stops when a metric no longer gets better."""

    def __init__(
        self,
        x: Any = None,
        y: Any = None,
        input_fn: Callable[..., Any] | None = None,
        batch_size: int | None = None,
        eval_steps: int | None = None,
        every_n_steps: int = 100,
        metrics: Mapping[str, Any] | None = None,
        hooks: Iterable[Any] | None = None,
        early_stopping_rounds: int | None = None,
        early_stopping_metric: str = "loss",
        early_stopping_metric_minimize: bool = True,
        name: str | None = None,
        check_interval_secs: float = 60,
    ) -> None:
        """Keeps the settings.

        Args:
          x: Features, NumPy arrays.
          y: Labels, NumPy arrays.
          input_fn: As for `Estimator.evaluate`, in place of x and y.
          batch_size: Examples of a batch of x.
          eval_steps: Batches of an evaluation, None for all.
          every_n_steps: Steps between two looks for a checkpoint.
          metrics: Must be None: give them to the model_fn or to `Experiment`.
          hooks: Hooks of the evaluations.
          early_stopping_rounds: Steps without a better metric until training stops, None for never.
          early_stopping_metric: The metric.
          early_stopping_metric_minimize: True if a smaller one is better.
          name: Name of the evaluations.
          check_interval_secs: Not used.

        Raises:
          ValueError: There is neither x nor input_fn, or metrics are given.
        """
        if metrics:
            raise ValueError(
                f"ValidationMonitor got the metrics {sorted(metrics)}: give them to the model_fn, "
                "as eval_metric_ops, or to Experiment, as eval_metrics."
            )
        if input_fn is None:
            if x is None:
                raise ValueError("ValidationMonitor takes x and y, or input_fn, got neither.")
            input_fn = numpy_input(x, y, batch_size, 1, False)
        del check_interval_secs
        self._input_fn = input_fn
        self._steps = eval_steps
        self._every = every_n_steps
        self._hooks = list(hooks or ())
        self._rounds = early_stopping_rounds
        self._metric = early_stopping_metric
        self._sign = 1 if early_stopping_metric_minimize else -1
        self._name = name
        self._estimator: Any = None
        self._last: str | None = None
        self._seen = 0
        self._best: tuple[float, int] | None = None

    @property
    def early_stopped(self) -> bool:
        """True if training was stopped."""
        return self._stopped

    _stopped = False

    @property
    def best_step(self) -> int | None:
        """Step of the best metric, None before the first evaluation."""
        return None if self._best is None else self._best[1]

    @property
    def best_value(self) -> float | None:
        """Best metric, None before the first evaluation."""
        return None if self._best is None else self._sign * self._best[0]

    def set_estimator(self, estimator: Estimator) -> None:
        """Keeps the model; `replace_monitors_with_hooks` and `fit` call it."""
        self._estimator = estimator

    def begin(self) -> None:
        """Finds the global step.

        Raises:
          ValueError: The model is not known.
        """
        if self._estimator is None:
            raise ValueError(
                "ValidationMonitor does not know its Estimator: give it to Estimator.fit as a "
                "monitor, or call replace_monitors_with_hooks(monitors, estimator)."
            )
        self._step = v1.train.get_global_step()

    def before_run(self, run_context: Any) -> Any:
        """Asks for the global step."""
        return v1.train.SessionRunArgs(self._step)

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Evaluates a checkpoint that is new."""
        step = int(run_values.results)
        if step - self._seen < self._every:
            return
        self._seen = step
        newest = self._estimator.latest_checkpoint()
        if newest is None or newest == self._last:
            return
        self._last = newest
        results = self._estimator.evaluate(
            self._input_fn,
            steps=self._steps,
            hooks=self._hooks,
            checkpoint_path=newest,
            name=self._name,
        )
        if self._rounds is not None and self._is_over(results):
            self._stopped = True
            run_context.request_stop()

    def _is_over(self, results: Mapping[str, Any]) -> bool:
        if self._metric not in results:
            raise ValueError(
                f"ValidationMonitor got early_stopping_metric={self._metric!r}, but the metrics "
                f"are {sorted(results)}."
            )
        value, step = self._sign * float(results[self._metric]), int(results["global_step"])
        if self._best is None or value < self._best[0]:
            self._best = value, step
        return step - self._best[1] >= (self._rounds or 0)


def replace_monitors_with_hooks(monitors_or_hooks: Any, estimator: Estimator) -> list[Any]:
    """Tells monitors which model they watch; returns all of them as a list of hooks."""
    hooks = list(monitors_or_hooks or ())
    for hook in hooks:
        if isinstance(hook, ValidationMonitor):
            hook.set_estimator(estimator)
    return hooks


def PrintTensor(  # noqa: N802  # It was a class.
    tensor_names: Any, every_n: int = 100, first_n: int = 1
) -> v1.train.SessionRunHook:
    """Makes a LoggingTensorHook; `first_n` is not used."""
    del first_n
    return public.LoggingTensorHook(tensor_names, every_n_iter=every_n)


def StopAtStep(  # noqa: N802  # It was a class.
    num_steps: int | None = None, last_step: int | None = None
) -> v1.train.SessionRunHook:
    """Makes a StopAtStepHook; the arguments are its own."""
    return public.StopAtStepHook(num_steps, last_step)


def NanLoss(  # noqa: N802  # It was a class.
    loss_tensor: Any, every_n_steps: int = 100, fail_on_nan_loss: bool = True
) -> v1.train.SessionRunHook:
    """Makes a NanTensorHook, which looks at every step. It fails, or stops the training."""
    del every_n_steps
    return public.NanTensorHook(loss_tensor, fail_on_nan_loss)


def SummarySaver(  # noqa: N802  # It was a class.
    summary_op: Any,
    save_steps: int = 100,
    output_dir: str | None = None,
    summary_writer: Any = None,
    scaffold: Any = None,
) -> v1.train.SessionRunHook:
    """Makes a SummarySaverHook; the arguments are its own."""
    return public.SummarySaverHook(
        save_steps=save_steps,
        output_dir=output_dir,
        summary_writer=summary_writer,
        scaffold=scaffold,
        summary_op=summary_op,
    )


def CheckpointSaver(  # noqa: N802  # It was a class.
    checkpoint_dir: str,
    save_secs: float | None = None,
    save_steps: int | None = None,
    saver: Any = None,
    checkpoint_basename: str = "model.ckpt",
    scaffold: Any = None,
) -> v1.train.SessionRunHook:
    """Makes a CheckpointSaverHook; the arguments are its own."""
    return public.CheckpointSaverHook(
        checkpoint_dir, save_secs, save_steps, saver, checkpoint_basename, scaffold
    )
