"""Early stopping: training ends before its last step because more of it would not help.

Owns the hooks that look at past evaluations every now and then and ask training to stop, and the
reading of the event files in which evaluations are kept. In a cluster the chief decides, and the
others learn of it through a queue on the first parameter server; nothing of it is in a checkpoint.
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
from replicate.estimator.cluster_config import TaskType
from replicate.estimator.estimator import Estimator
from replicate.estimator.hooks.stepping import Due, PatientHook
from replicate.estimator.log import log

v1 = tf.compat.v1

Values: TypeAlias = Mapping[int, float]
"""The values of one metric, by the global step of the evaluation, in its order."""

_HIGHER, _LOWER = 1, -1
"""The direction in which a metric is expected to go."""


def make_early_stopping_hook(
    estimator: Estimator,
    should_stop_fn: Callable[[], bool],
    run_every_secs: float | None = 60,
    run_every_steps: int | None = None,
) -> v1.train.SessionRunHook:
    """Returns a hook that ends training once a function says so.

    Args:
      estimator: The one that is trained.
      should_stop_fn: Takes nothing; called on the chief only.
      run_every_secs: Seconds between two calls.
      run_every_steps: Global steps between two calls; takes the place of the seconds, which must
        be None.

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
    config = estimator.config
    is_shared = config.num_ps_replicas > 0
    if not config.is_chief:
        return _FollowingHook()
    return _DecidingHook(should_stop_fn, run_every_secs, run_every_steps, is_shared)


def stop_if_higher_hook(
    estimator: Estimator,
    metric_name: str,
    threshold: float,
    eval_dir: str | None = None,
    min_steps: int = 0,
    run_every_secs: float | None = 60,
    run_every_steps: int | None = None,
) -> v1.train.SessionRunHook:
    """Returns a hook that ends training once a metric was above a threshold in an evaluation.

    Args:
      estimator: The one that is trained.
      metric_name: A key of what `Estimator.evaluate` returns.
      threshold: That the metric has to pass.
      eval_dir: Directory of the evaluations, None for `estimator.eval_dir()`.
      min_steps: Evaluations before this global step are not looked at.
      run_every_secs: Seconds between two looks.
      run_every_steps: Global steps between two looks; then run_every_secs must be None.

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
    """Returns a hook that ends training once a metric was below a threshold in an evaluation.

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
    """Returns the metrics of all evaluations in a directory, by global step, in its order.

    Args:
      eval_dir: As `Estimator.eval_dir` gives it; it may be absent.
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
      estimator: The one that is trained.
      last_step: Global step at which the chief stops. Other workers go on until its checkpoint is
        there.
      wait_after_file_check_secs: Seconds that a worker waits after it looked for it in vain.
    """
    if estimator.config.is_chief:
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
    """A hook that asks `is_reached` about the values of one metric by step."""

    def should_stop() -> bool:
        evaluations = read_eval_metrics(eval_dir or estimator.eval_dir())
        looked_at = {step: found for step, found in evaluations.items() if step >= min_steps}
        return is_reached({step: _value(found, metric_name) for step, found in looked_at.items()})

    return make_early_stopping_hook(estimator, should_stop, run_every_secs, run_every_steps)


def _value(metrics: dict[str, float], name: str) -> float:
    if name not in metrics:
        raise ValueError(
            f"Early stopping looks at metric {name!r}, but the evaluations hold {sorted(metrics)}. "
            "Correct metric_name, or add the metric to eval_metric_ops."
        )
    return metrics[name]


def _is_passed(threshold: float, direction: int) -> Callable[[Values], bool]:
    """Whether any value lies beyond a threshold."""
    return lambda values: any(
        direction * value > direction * threshold for value in values.values()
    )


def _is_stuck(max_steps: int, direction: int) -> Callable[[Values], bool]:
    """Whether an evaluation came that many steps after the best one before it."""

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
    """The queue of a cluster that is no longer empty once training shall stop."""
    with v1.device(f"/job:{TaskType.PS}/task:0"):
        return v1.FIFOQueue(100, tf.bool, shapes=(), shared_name="stop_early")


class _DecidingHook(PatientHook):
    """Asks, at intervals, whether to stop, and tells the others."""

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
        self._tell: Tensor = None
        self._next = Due(step=0)

    def due(self) -> Due:
        """Returns when to ask next; that is after the first step, to begin with."""
        return self._next

    def begin(self) -> None:
        """Makes the operation that tells the others, if there may be any."""
        self._global_step = v1.train.get_global_step()
        if self._is_shared:
            self._tell = _stop_queue().enqueue(True)

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Asks, if it is time to."""
        del run_values
        step = int(run_context.session.run(self._global_step))
        if step < self._next.step and time.monotonic() < self._next.time:
            return
        if self._every_steps is not None:
            self._next = Due(step=step + self._every_steps)
        elif self._every_secs is not None:
            self._next = Due(time=time.monotonic() + self._every_secs)
        if not self._should_stop():
            return
        log.info("Stopping early: should_stop_fn asks for it.")
        if self._is_shared:
            run_context.session.run(self._tell)
        run_context.request_stop()


class _FollowingHook(v1.train.SessionRunHook):
    """Stops a worker when the chief has decided to stop."""

    def begin(self) -> None:
        """Finds the queue of the chief."""
        self._told = _stop_queue().size()

    def before_run(self, run_context: Any) -> Any:
        """Looks into the queue beside each step."""
        del run_context
        return v1.train.SessionRunArgs(self._told)

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Stops if there was something in it."""
        if run_values.results:
            run_context.request_stop()


class _CheckpointStepHook(v1.train.SessionRunHook):
    """Stops a worker when the checkpoint of a step is there."""

    def __init__(self, estimator: Estimator, last_step: int, wait_secs: float):
        self._estimator = estimator
        self._last_step = last_step
        self._wait_secs = wait_secs

    def begin(self) -> None:
        """Finds the step counter."""
        self._global_step = v1.train.get_global_step()

    def before_run(self, run_context: Any) -> Any:
        """Asks for the step counter."""
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
