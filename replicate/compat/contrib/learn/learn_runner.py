"""learn_runner.run: an experiment by its schedule, or by the task of this process."""

from collections.abc import Callable
from typing import Any

from replicate.compat.contrib.learn.experiment import Experiment, schedules
from replicate.roles import TaskType


def run(
    experiment_fn: Callable[..., Experiment],
    output_dir: str | None = None,
    schedule: str | None = None,
    run_config: Any = None,
    hparams: Any = None,
) -> Any:
    """Makes an experiment and runs it.

    Args:
      experiment_fn: Function of run_config and hparams, or of output_dir, that makes it.
      output_dir: Model directory, for an experiment_fn that takes it.
      schedule: Method of `Experiment`. None for that of this process's task: "train_and_evaluate"
        without a cluster.
      run_config: A RunConfig, for an experiment_fn that takes it.
      hparams: Hyperparameters, for an experiment_fn that takes a run_config.

    Returns:
      What the method returns.

    Raises:
      ValueError: Neither or both of output_dir and run_config are given, hparams come without a
        run_config, or there is no such schedule.
      TypeError: experiment_fn is no function, or makes no `Experiment`.
    """
    if not callable(experiment_fn):
        raise TypeError(f"learn_runner.run takes a function, got experiment_fn={experiment_fn!r}.")
    if (output_dir is None) == (run_config is None):
        raise ValueError(
            f"learn_runner.run takes output_dir or run_config, got output_dir={output_dir!r} and "
            f"run_config={run_config!r}."
        )
    if output_dir is not None:
        if hparams is not None:
            raise ValueError("learn_runner.run takes hparams together with a run_config only.")
        experiment = experiment_fn(output_dir)
    else:
        if not run_config.model_dir:
            raise ValueError("learn_runner.run takes a run_config with a model_dir, got none.")
        experiment = experiment_fn(run_config, hparams)
    if not isinstance(experiment, Experiment):
        raise TypeError(
            f"experiment_fn must return a tf.contrib.learn.Experiment, got {experiment!r}."
        )
    name = schedule or _default_schedule(experiment.estimator.config)
    if name not in schedules():
        raise ValueError(
            f"There is no schedule {name!r} of an Experiment; there are {list(schedules())}."
        )
    return getattr(experiment, name)()


def _default_schedule(config: Any) -> str:
    if not config.cluster_spec:
        return "train_and_evaluate"
    if config.task_type == TaskType.PS:
        return "run_std_server"
    is_first = config.task_type in (TaskType.MASTER, TaskType.CHIEF)
    return "train_and_evaluate" if is_first else "train"
