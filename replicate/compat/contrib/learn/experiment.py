"""Experiment: an Estimator with all that its training, evaluation and export need."""

import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from replicate.compat.contrib.learn.exports import ExportStrategy
from replicate.compat.contrib.learn.metric_spec import measured
from replicate.estimator.estimator import Estimator
from replicate.estimator.train_and_evaluate import train_and_evaluate
from replicate.estimator.train_specs import EvalSpec, TrainSpec

Results = Mapping[str, Any]
Predicate = Callable[[Results | None], bool]


class Experiment:
    """Trains, evaluates and exports a model by one of several schedules.

    A schedule is the name of a method without arguments, such as "train_and_evaluate". In a cluster
    of TF_CONFIG each process does the work of its task.
    """

    def __init__(
        self,
        estimator: Estimator,
        train_input_fn: Callable[..., Any],
        eval_input_fn: Callable[..., Any],
        eval_metrics: Mapping[str, Any] | None = None,
        train_steps: int | None = None,
        eval_steps: int | None = 100,
        train_monitors: Iterable[Any] | None = None,
        eval_hooks: Iterable[Any] | None = None,
        local_eval_frequency: int | None = None,
        eval_delay_secs: float = 120,
        continuous_eval_throttle_secs: float = 60,
        min_eval_frequency: int | None = None,
        delay_workers_by_global_step: bool = False,
        export_strategies: Any = None,
        train_steps_per_iteration: int | None = None,
        checkpoint_and_export: bool = False,
        saving_listeners: Iterable[Any] | None = None,
        check_interval_secs: float = 5,
    ) -> None:
        """Keeps the settings.

        Args:
          estimator: The model.
          train_input_fn: As for `Estimator.train`.
          eval_input_fn: As for `Estimator.evaluate`.
          eval_metrics: Metrics by their names: a `MetricSpec`, or a function of predictions and
            labels.
          train_steps: Global step to stop at, None until the input ends.
          eval_steps: Batches of an evaluation, None for all.
          train_monitors: Hooks of the training.
          eval_hooks: Hooks of evaluations.
          local_eval_frequency: Older name of min_eval_frequency.
          eval_delay_secs: Seconds that an evaluator of a cluster waits before its first evaluation.
          continuous_eval_throttle_secs: Least seconds between two evaluations of
            `continuous_eval`.
          min_eval_frequency: 0 to evaluate after training only. Else each checkpoint is evaluated.
          delay_workers_by_global_step: Not used: workers wait as those of the Estimator.
          export_strategies: An `ExportStrategy`, or a list of them.
          train_steps_per_iteration: Steps between two evaluations of `continuous_train_and_eval`.
          checkpoint_and_export: Not used.
          saving_listeners: Called before and after every save.
          check_interval_secs: Not used.

        Raises:
          TypeError: It is no Estimator, or an export strategy is none.
        """
        if not isinstance(estimator, Estimator):
            raise TypeError(f"Experiment takes an Estimator, got {estimator!r}.")
        del delay_workers_by_global_step, checkpoint_and_export, check_interval_secs
        self.estimator = measured(estimator, eval_metrics)
        self._train_input_fn = train_input_fn
        self._eval_input_fn = eval_input_fn
        self.eval_metrics = eval_metrics
        self.train_steps = train_steps
        self.eval_steps = eval_steps
        self._train_hooks = list(train_monitors or ())
        self._eval_hooks = list(eval_hooks or ())
        self._eval_delay = eval_delay_secs
        self._throttle = continuous_eval_throttle_secs
        frequency = min_eval_frequency if local_eval_frequency is None else local_eval_frequency
        self._evaluates_between = frequency != 0
        self._steps_per_iteration = train_steps_per_iteration
        self._listeners = list(saving_listeners or ())
        self._strategies: list[ExportStrategy] = []
        self.reset_export_strategies(export_strategies)

    def reset_export_strategies(self, new_export_strategies: Any = None) -> list[ExportStrategy]:
        """Replaces the export strategies by one, a list of them or none; returns the old ones.

        Raises:
          TypeError: One is no `ExportStrategy`.
        """
        earlier = self._strategies
        new = new_export_strategies or []
        self._strategies = [new] if isinstance(new, ExportStrategy) else list(new)
        for each in self._strategies:
            if not isinstance(each, ExportStrategy):
                raise TypeError(f"Experiment takes an ExportStrategy, got {each!r}.")
        return earlier

    def extend_train_hooks(self, additional_hooks: Iterable[Any]) -> None:
        """Adds hooks to the training."""
        self._train_hooks.extend(additional_hooks)

    def train(self, delay_secs: float | None = None) -> Any:
        """Trains; the task of a cluster does its part. Workers wait as those of the Estimator."""
        del delay_secs
        if self.estimator.config.cluster_spec:
            return self._in_cluster()
        return self._train(self.train_steps)

    def evaluate(self, delay_secs: float | None = None, name: str | None = None) -> Results:
        """Evaluates the newest checkpoint after `delay_secs`, and returns the metrics."""
        time.sleep(delay_secs or 0)
        return self.estimator.evaluate(
            self._eval_input_fn, steps=self.eval_steps, hooks=self._eval_hooks, name=name
        )

    def train_and_evaluate(self) -> tuple[Results | None, list[Any]]:
        """Trains, evaluates each checkpoint, and exports the last one.

        Returns:
          (metrics of the last checkpoint, what the export strategies returned).
        """
        if self.estimator.config.cluster_spec:
            results = self._in_cluster()
        elif self._evaluates_between:
            results = self._in_turn(throttle=0)
        else:
            self._train(self.train_steps)
            results = self.evaluate()
        return results, self._export(results)

    def continuous_train_and_eval(
        self, continuous_eval_predicate_fn: Predicate | None = None
    ) -> tuple[Results | None, list[Any]]:
        """Trains some steps and evaluates, in turn, until train_steps are reached.

        Args:
          continuous_eval_predicate_fn: Function of the last metrics (None at first) that returns
            True to go on.

        Returns:
          (metrics of the last checkpoint, what the export strategies returned).
        """
        results: Results | None = None
        exports: list[Any] = []
        while continuous_eval_predicate_fn is None or continuous_eval_predicate_fn(results):
            steps = self._steps_per_iteration or self.train_steps
            step = results["global_step"] if results else self._trained_steps()
            if self.train_steps is not None and step >= self.train_steps:
                break
            if steps is not None and self.train_steps is not None:
                steps = min(step + steps, self.train_steps)
            self._train(steps)
            results = self.evaluate()
            exports = self._export(results)
            if steps is None:
                break
        return results, exports

    def continuous_eval(
        self,
        delay_secs: float | None = None,
        throttle_delay_secs: float | None = None,
        evaluate_checkpoint_only_once: bool = True,
        continuous_eval_predicate_fn: Predicate | None = None,
        name: str = "continuous",
    ) -> tuple[Results | None, list[Any]]:
        """Evaluates new checkpoints until one has train_steps.

        Args:
          delay_secs: Seconds to wait before, eval_delay_secs if None.
          throttle_delay_secs: Least seconds between two evaluations; None for those of the
            experiment.
          evaluate_checkpoint_only_once: False to evaluate a checkpoint again and again.
          continuous_eval_predicate_fn: Function of the last metrics (None at first) that returns
            True to go on.
          name: Name of the evaluation.

        Returns:
          (metrics of the last checkpoint, what the export strategies returned).
        """
        return self._follow(
            self._eval_input_fn,
            self._eval_delay if delay_secs is None else delay_secs,
            self._throttle if throttle_delay_secs is None else throttle_delay_secs,
            evaluate_checkpoint_only_once,
            continuous_eval_predicate_fn,
            name,
        )

    def continuous_eval_on_train_data(
        self,
        delay_secs: float | None = None,
        throttle_delay_secs: float | None = None,
        continuous_eval_predicate_fn: Predicate | None = None,
        name: str = "continuous_on_train_data",
    ) -> tuple[Results | None, list[Any]]:
        """Evaluates new checkpoints on the training data; arguments as for `continuous_eval`."""
        return self._follow(
            self._train_input_fn,
            self._eval_delay if delay_secs is None else delay_secs,
            self._throttle if throttle_delay_secs is None else throttle_delay_secs,
            True,
            continuous_eval_predicate_fn,
            name,
        )

    def local_run(self) -> tuple[Results | None, list[Any]]:
        """Trains and evaluates: an older name of `train_and_evaluate`."""
        return self.train_and_evaluate()

    def run_std_server(self) -> Any:
        """Keeps variables for a cluster, until training has ended.

        Raises:
          ValueError: There is no cluster.
        """
        if not self.estimator.config.cluster_spec:
            raise ValueError(
                "run_std_server needs a cluster: describe it in the environment variable TF_CONFIG."
            )
        return self._in_cluster()

    def test(self) -> tuple[Results, list[Any]]:
        """Trains one step, evaluates one batch and exports: a try of all parts.

        Returns:
          (metrics, what the export strategies returned).
        """
        self.estimator.train(self._train_input_fn, hooks=self._train_hooks, steps=1)
        results = self.estimator.evaluate(self._eval_input_fn, steps=1, name="one_pass")
        return results, self._export(results)

    def _train(self, max_steps: int | None) -> Estimator:
        return self.estimator.train(
            self._train_input_fn,
            hooks=self._train_hooks,
            max_steps=max_steps,
            saving_listeners=self._listeners,
        )

    def _in_cluster(self) -> Results | None:
        return self._in_turn(self._throttle)

    def _in_turn(self, throttle: float) -> Results | None:
        results, _ = train_and_evaluate(
            self.estimator,
            TrainSpec(self._train_input_fn, self.train_steps, self._train_hooks, self._listeners),
            EvalSpec(
                self._eval_input_fn,
                steps=self.eval_steps,
                hooks=self._eval_hooks,
                start_delay_secs=self._eval_delay,
                throttle_secs=throttle,
            ),
        )
        return results

    def _follow(
        self,
        input_fn: Callable[..., Any],
        delay: float,
        throttle: float,
        once: bool,
        predicate: Predicate | None,
        name: str,
    ) -> tuple[Results | None, list[Any]]:
        time.sleep(delay)
        results, exports, last = None, [], None
        while predicate is None or predicate(results):
            started = time.monotonic()
            newest = self.estimator.latest_checkpoint()
            if newest is not None and not (once and newest == last):
                results = self.estimator.evaluate(
                    input_fn, self.eval_steps, self._eval_hooks, newest, name
                )
                exports, last = self._export(results, newest), newest
                if self.train_steps and results["global_step"] >= self.train_steps:
                    break
            time.sleep(max(0.0, throttle - (time.monotonic() - started)))
        return results, exports

    def _trained_steps(self) -> int:
        if self.estimator.latest_checkpoint() is None:
            return 0
        return int(self.estimator.get_variable_value("global_step"))

    def _export(self, results: Results | None, checkpoint: str | None = None) -> list[Any]:
        if results is None:
            return []
        return [
            each.export(
                self.estimator,
                os.path.join(self.estimator.model_dir, "export", each.name),
                checkpoint_path=checkpoint,
                eval_result=results,
            )
            for each in self._strategies
        ]


def schedules() -> Sequence[str]:
    """Returns the names of the schedules."""
    return sorted(
        name for name in vars(Experiment) if not name.startswith("_") and name not in _NOT_SCHEDULES
    )


_NOT_SCHEDULES = ("reset_export_strategies", "extend_train_hooks")
