"""Early stopping: ends training before its last step if more steps would not help.

Owns the hooks that read past evaluations at intervals and stop training, and the reader of the
event files of evaluations. In a cluster the chief decides and informs the other tasks through a
queue on the first parameter server. Checkpoints do not contain any of this.
"""

import collections
import math
import os
import time
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import tensorflow as tf

from replicate._types import Tensor
from replicate.estimator.checkpoints.reading import read_variable
from replicate.estimator.estimator import Estimator
from replicate.estimator.hooks.scheduled_hook import NextRun, ScheduledHook
from replicate.estimator.log import log
from replicate.roles import TaskType

v1 = tf.compat.v1

Values: TypeAlias = Mapping[int, float]
"""Values of one metric by the global step of the evaluation, in ascending order."""

_HIGHER, _LOWER = 1, -1
"""Direction of a better metric."""


def make_early_stopping_hook(
    estimator: Estimator,
    should_stop_fn: Callable[[], bool],
    run_every_secs: float | None = 60,
    run_every_steps: int | None = None,
) -> v1.train.SessionRunHook:
    """Returns a hook that ends training when a function returns True.

    Args:
      estimator: The trained Estimator.
      should_stop_fn: Function without arguments; called on the chief only.
      run_every_secs: Seconds between two calls.
      run_every_steps: Global steps between two calls; then run_every_secs must be None.

    Raises:
      TypeError: estimator is no Estimator, or should_stop_fn is no function.
      ValueError: Not exactly one of the two intervals is given.
    """
    if not isinstance(estimator, Estimator):
        raise TypeError(
            f"make_early_stopping_hook: estimator must be a replicate.Estimator, got {estimator!r}."
            " Pass the one that is trained."
        )
    if not callable(should_stop_fn):
        raise TypeError(
            "make_early_stopping_hook: should_stop_fn must be a function without arguments, got "
            f"{should_stop_fn!r}."
        )
    if (run_every_secs is None) == (run_every_steps is None):
        raise ValueError(
            "make_early_stopping_hook: give run_every_secs or run_every_steps and set the other to "
            f"None, got {run_every_secs!r} and {run_every_steps!r}."
        )
    is_shared = estimator.config.num_ps_replicas > 0
    if estimator.config.is_chief:
        return _ChiefStopHook(should_stop_fn, run_every_secs, run_every_steps, is_shared)
    # Without parameter servers, all workers stop with the chief by themselves.
    return _WorkerStopHook() if is_shared else v1.train.SessionRunHook()


def stop_if_higher_hook(
    estimator: Estimator,
    metric_name: str,
    threshold: float,
    eval_dir: str | None = None,
    min_steps: int = 0,
    run_every_secs: float | None = 60,
    run_every_steps: int | None = None,
) -> v1.train.SessionRunHook:
    """Returns a hook that ends training after an evaluation with a metric above a threshold.

    Args:
      estimator: The trained Estimator.
      metric_name: Key of the metric in the results of `Estimator.evaluate`.
      threshold: Training ends if the metric is greater.
      eval_dir: Directory of the evaluations, None for `estimator.eval_dir()`.
      min_steps: Evaluations before this global step do not count.
      run_every_secs: Seconds between two checks.
      run_every_steps: Global steps between two checks; then run_every_secs must be None.

    Raises:
      TypeError: estimator is no Estimator.
      ValueError: Not exactly one of the two intervals is given.
    """
    is_reached = _is_passed(threshold, _HIGHER)
    return _metric_hook(
        estimator, metric_name, is_reached, eval_dir, min_steps, run_every_secs, run_every_steps
    )


def stop_if_lower_hook(
    estimator: Estimator,
    metric_name: str,
    threshold: float,
    eval_dir: str | None = None,
    min_steps: int = 0,
    run_every_secs: float | None = 60,
    run_every_steps: int | None = None,
) -> v1.train.SessionRunHook:
    """Returns a hook that ends training after an evaluation with a metric below a threshold.

    Arguments and errors are those of `stop_if_higher_hook`.
    """
    is_reached = _is_passed(threshold, _LOWER)
    return _metric_hook(
        estimator, metric_name, is_reached, eval_dir, min_steps, run_every_secs, run_every_steps
    )


def stop_if_no_increase_hook(
    estimator: Estimator,
    metric_name: str,
    max_steps_without_increase: int,
    eval_dir: str | None = None,
    min_steps: int = 0,
    run_every_secs: float | None = 60,
    run_every_steps: int | None = None,
) -> v1.train.SessionRunHook:
    """Returns a hook that ends training when a metric has not become higher for some steps.

    `max_steps_without_increase` is the difference of the global steps of the best evaluation so far
    and of a later one. The other arguments and the errors are those of `stop_if_higher_hook`.
    """
    is_reached = _is_stuck(max_steps_without_increase, _HIGHER)
    return _metric_hook(
        estimator, metric_name, is_reached, eval_dir, min_steps, run_every_secs, run_every_steps
    )


def stop_if_no_decrease_hook(
    estimator: Estimator,
    metric_name: str,
    max_steps_without_decrease: int,
    eval_dir: str | None = None,
    min_steps: int = 0,
    run_every_secs: float | None = 60,
    run_every_steps: int | None = None,
) -> v1.train.SessionRunHook:
    """Returns a hook that ends training when a metric has not become lower for some steps.

    `max_steps_without_decrease` is the difference of the global steps of the best evaluation so far
    and of a later one. The other arguments and the errors are those of `stop_if_higher_hook`.
    """
    is_reached = _is_stuck(max_steps_without_decrease, _LOWER)
    return _metric_hook(
        estimator, metric_name, is_reached, eval_dir, min_steps, run_every_secs, run_every_steps
    )


def read_eval_metrics(eval_dir: str) -> dict[int, dict[str, float]]:
    """Returns the metrics of all evaluations in a directory by global step, in ascending order.

    Args:
      eval_dir: Result of `Estimator.eval_dir`; the directory may be absent.
    """
    metrics: dict[int, dict[str, float]] = collections.defaultdict(dict)
    for path in sorted(tf.io.gfile.glob(os.path.join(eval_dir, "*.tfevents.*"))):
        try:
            for event in v1.train.summary_iterator(path):
                for value in event.summary.value:
                    if value.HasField("simple_value"):
                        metrics[event.step][value.tag] = value.simple_value
        except tf.errors.DataLossError:
            log.info("%s ends in the middle of an event: it is being written.", path)
    return {step: metrics[step] for step in sorted(metrics)}


def make_stop_at_checkpoint_step_hook(
    estimator: Estimator, last_step: int, wait_after_file_check_secs: float = 30
) -> v1.train.SessionRunHook:
    """Returns a hook that ends training when a step is reached and its checkpoint is written.

    Args:
      estimator: The trained Estimator.
      last_step: Global step at which the chief stops. With parameter servers, other workers
        continue until the checkpoint of that step exists; without, all stop after the next step.
      wait_after_file_check_secs: Seconds that a worker waits if the checkpoint does not exist yet.
    """
    if estimator.config.is_chief or estimator.config.num_ps_replicas == 0:
        return v1.train.StopAtStepHook(last_step=last_step)
    return _CheckpointStepHook(estimator, last_step, wait_after_file_check_secs)


def _metric_hook(
    estimator: Estimator,
    metric_name: str,
    is_reached: Callable[[Values], bool],
    eval_dir: str | None,
    min_steps: int,
    run_every_secs: float | None,
    run_every_steps: int | None,
) -> v1.train.SessionRunHook:
    """Returns a hook that stops training if `is_reached` is True for the values of a metric."""

    def should_stop() -> bool:
        evaluations = read_eval_metrics(eval_dir or estimator.eval_dir())
        counted = {step: found for step, found in evaluations.items() if step >= min_steps}
        return is_reached({step: _value(found, metric_name) for step, found in counted.items()})

    return make_early_stopping_hook(estimator, should_stop, run_every_secs, run_every_steps)


def _value(metrics: dict[str, float], name: str) -> float:
    if name not in metrics:
        raise ValueError(
            f"Early stopping looks at metric {name!r}, but the evaluations hold {sorted(metrics)}. "
            "Correct metric_name, or add the metric to eval_metric_ops."
        )
    return metrics[name]


def _is_passed(threshold: float, direction: int) -> Callable[[Values], bool]:
    """Returns a function that is True if any value is beyond a threshold."""
    return lambda values: any(
        direction * value > direction * threshold for value in values.values()
    )


def _is_stuck(max_steps: int, direction: int) -> Callable[[Values], bool]:
    """Returns a function that is True if the best value is older than some steps."""

    def is_stuck(values: Values) -> bool:
        best, best_step = -math.inf, next(iter(values), 0)
        for step, value in values.items():
            if direction * value > best:
                best, best_step = direction * value, step
            if step - best_step >= max_steps:
                return True
        return False

    return is_stuck


def _stop_queue() -> Any:
    """Returns a queue on a parameter server; it is not empty if training should stop."""
    with v1.device(f"/job:{TaskType.PS}/task:0"):
        return v1.FIFOQueue(100, tf.bool, shapes=(), shared_name="stop_early")


class _ChiefStopHook(ScheduledHook):
    """Calls should_stop_fn at intervals, stops training, and informs the other tasks."""

    def __init__(
        self,
        should_stop_fn: Callable[[], bool],
        every_secs: float | None,
        every_steps: int | None,
        is_shared: bool,
    ):
        self._should_stop = should_stop_fn
        self._every_secs = every_secs
        self._every_steps = every_steps
        self._is_shared = is_shared
        self._global_step: Tensor = None
        self._enqueue: Tensor = None
        self._next = NextRun(step=0)

    def next_run(self) -> NextRun:
        """Returns the step or time of the next call; the first call follows the first step."""
        return self._next

    def begin(self) -> None:
        """Makes the operation that informs the other tasks, if there can be any."""
        self._global_step = v1.train.get_global_step()
        if self._is_shared:
            self._enqueue = _stop_queue().enqueue(True)

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Calls should_stop_fn if it is due."""
        del run_values
        step = int(run_context.session.run(self._global_step))
        if not self._next.is_reached(step):
            return
        if self._every_steps is not None:
            self._next = NextRun(step=step + self._every_steps)
        elif self._every_secs is not None:
            self._next = NextRun(time=time.monotonic() + self._every_secs)
        if not self._should_stop():
            return
        log.info("Stopping early: should_stop_fn asks for it.")
        if self._is_shared:
            run_context.session.run(self._enqueue)
        run_context.request_stop()


class _WorkerStopHook(v1.train.SessionRunHook):
    """Stops a worker when the chief has decided to stop."""

    def begin(self) -> None:
        """Finds the queue of the chief."""
        self._queue_size = _stop_queue().size()

    def before_run(self, run_context: Any) -> Any:
        """Fetches the size of the queue beside each step."""
        del run_context
        return v1.train.SessionRunArgs(self._queue_size)

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Stops if the queue is not empty."""
        if run_values.results:
            run_context.request_stop()


class _CheckpointStepHook(v1.train.SessionRunHook):
    """Stops a worker when the checkpoint of a step exists."""

    def __init__(self, estimator: Estimator, last_step: int, wait_secs: float):
        self._estimator = estimator
        self._last_step = last_step
        self._wait_secs = wait_secs

    def begin(self) -> None:
        """Finds the step counter."""
        self._global_step = v1.train.get_global_step()

    def before_run(self, run_context: Any) -> Any:
        """Fetches the step counter."""
        del run_context
        return v1.train.SessionRunArgs(self._global_step)

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Looks for the checkpoint once the step is near."""
        if run_values.results + 1 < self._last_step:
            return
        newest = self._estimator.latest_checkpoint()
        if newest is not None and read_variable(newest, "global_step") >= self._last_step:
            run_context.request_stop()
        else:
            time.sleep(self._wait_secs)
