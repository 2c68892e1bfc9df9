"""Checks of the settings of a RunConfig.

Owns the list of settings and the accepted values of each, and converts accepted values: NumPy
numbers and whole floats become Python numbers, paths become strings. `run_config.py` stores the
values.
"""

import math
import operator
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from replicate.errors import ArgumentTypeError
from replicate.estimator.cluster_config import ClusterConfig, cluster_config_from_environment
from replicate.estimator.strategies import strategy_request
from replicate.roles import TaskType

v1 = tf.compat.v1

PROGRESS_MODES = ("auto", "bar", "log", "off")
SAVE_ERROR_MODES = ("stop", "retry")
INTERVALS = ("save_checkpoints_steps", "save_checkpoints_secs")
_DEFAULT_SAVE_SECS = 600
_DEFAULT_KEEP_HOURS = 10000


class _NotGiven:
    """Type of the value of an argument that the caller left out."""

    def __repr__(self) -> str:
        return "<not given>"


NOT_GIVEN: Any = _NotGiven()
"""Default of a setting for which None is a value."""


def checked_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Returns checked and converted settings by name, a key of `CHECKS`.

    Raises:
      ValueError: A setting is out of range, or a strategy of `tf.distribute` is not supported.
      ClusterConfigError: The cluster is None, and TF_CONFIG is wrong.
      TypeError: model_dir, session_config, device_fn or cluster is of the wrong kind.
    """
    return {name: CHECKS[name](name, value) for name, value in settings.items()}


def checkpoint_intervals(steps: Any, secs: Any) -> dict[str, Any]:
    """Returns both checkpoint intervals of a new RunConfig, each a number, None or NOT_GIVEN.

    Without arguments, checkpoints are 600 seconds apart. An interval that is given, even as None,
    sets the other one to None unless that is given too.

    Raises:
      ValueError: Both are numbers.
    """
    if steps is NOT_GIVEN and secs is NOT_GIVEN:
        secs = _DEFAULT_SAVE_SECS
    values = [None if value is NOT_GIVEN else value for value in (steps, secs)]
    return _one_interval(dict(zip(INTERVALS, values, strict=True)))


def changed_intervals(changes: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the changes of `RunConfig.replace`, in which one interval takes the other's place.

    Raises:
      ValueError: Both intervals are numbers.
    """
    given = [name for name in INTERVALS if changes.get(name) is not None]
    return _one_interval({**(dict.fromkeys(INTERVALS) if given else {}), **changes})


def plain_session_config(filters: Sequence[str] = ()) -> Any:
    """Returns the session options of a run that has none of its own, with device filters.

    As in `tf.estimator`, TensorFlow's optimizations pass over a graph once, not twice.
    """
    options = v1.ConfigProto(allow_soft_placement=True, device_filters=filters)
    rewrites = options.graph_options.rewrite_options
    rewrites.meta_optimizer_iterations = type(rewrites).ONE
    return options


def default_session_config(cluster: ClusterConfig) -> Any:
    """Returns the session options of a task in a cluster; None for a process on its own."""
    if cluster.target is not None or not cluster.cluster_spec.jobs:
        return None
    return plain_session_config(device_filters(cluster))


def device_filters(cluster: ClusterConfig) -> list[str]:
    """Returns the devices of a cluster that the session of a task talks to.

    A task that trains talks to itself and to the parameter servers, so that it does not wait for
    other workers.
    """
    job = cluster.task_type
    if job == TaskType.PS:
        jobs = (TaskType.PS, TaskType.WORKER, TaskType.CHIEF, TaskType.MASTER)
        return [f"/job:{each}" for each in jobs]
    own = f"/job:{job}/task:{cluster.task_id}" if job == TaskType.WORKER else f"/job:{job}"
    return [f"/job:{TaskType.PS}", own]


def _one_interval(settings: dict[str, Any]) -> dict[str, Any]:
    steps, secs = (settings.get(name) for name in INTERVALS)
    if steps is not None and secs is not None:
        raise ValueError(
            "RunConfig: checkpoints are saved by steps or by seconds, got both "
            f"save_checkpoints_steps={steps!r} and save_checkpoints_secs={secs!r}. Give one of "
            "them."
        )
    return settings


def _whole(least: int | None) -> Callable[[str, Any], int | None]:
    """Returns the check of a whole number or None; `least` is the lowest that is accepted."""
    bound = "" if least is None else f" >= {least}"

    def check(name: str, value: Any) -> int | None:
        if value is None:
            return None
        number = _as_int(value)
        if number is None or (least is not None and number < least):
            raise ValueError(
                f"RunConfig: {name} must be a whole number{bound} or None, got {value!r}. "
                "Correct it."
            )
        return number

    return check


def _as_int(value: Any) -> int | None:
    """Returns a whole number of any type as an int; None for other values."""
    if isinstance(value, (float, np.floating)) and float(value).is_integer():
        return int(value)
    try:
        return operator.index(value)
    except TypeError:
        return None


def _number(
    accepted: str, is_accepted: Callable[[Any], bool], default: float | None = None
) -> Callable[[str, Any], Any]:
    """Returns the check of a real number; None stands for `default`."""

    def check(name: str, value: Any) -> Any:
        if value is None:
            return default
        number = value.item() if isinstance(value, np.generic) else value
        if not isinstance(number, (int, float)) or not is_accepted(number):
            raise ValueError(f"RunConfig: {name} must be {accepted}, got {value!r}. Correct it.")
        return number

    return check


def _positive(default: float | None = None) -> Callable[[str, Any], Any]:
    return _number("greater than 0", lambda number: number > 0, default)


def _restarts(name: str, value: Any) -> int | None:
    if value is None:
        raise ValueError(
            f"RunConfig: {name} must be a whole number >= 0, got None. Give a large one for a "
            "program that shall hardly ever give up."
        )
    return _whole(0)(name, value)


def _path(name: str, value: Any) -> str | None:
    if value is None:
        return None
    if not isinstance(value, (str, bytes, os.PathLike)):
        raise ArgumentTypeError(
            f"RunConfig: {name} must be a path, got {value!r}. Pass None for a temporary directory."
        )
    path = os.fsdecode(value)
    if not path:
        raise ValueError(f'RunConfig: {name} is "". Give a directory, or None for a temporary one.')
    return path


def _flag(name: str, value: Any) -> bool:
    del name
    return bool(value)


def _session_config(name: str, value: Any) -> Any:
    if value is not None and not isinstance(value, v1.ConfigProto):
        raise ArgumentTypeError(
            f"RunConfig: {name} must be a tf.compat.v1.ConfigProto, got {value!r}. Pass None for "
            "the default."
        )
    return value


def _device_fn(name: str, value: Any) -> Any:
    if value is not None and not callable(value):
        raise ArgumentTypeError(
            f"RunConfig: {name} must be a function from an operation to its device, got {value!r}. "
            "Pass None for the default."
        )
    return value


def _profile_steps(name: str, value: Any) -> tuple[int, int] | None:
    if value is None:
        return None
    is_pair = isinstance(value, (tuple, list)) and len(value) == 2
    is_pair = is_pair and not any(isinstance(step, bool) for step in value)
    first, last = (_as_int(step) for step in value) if is_pair else (None, None)
    if first is None or last is None or not 1 <= first <= last:
        raise ValueError(
            f"RunConfig: {name} must be the first and the last step to profile, "
            f"1 <= first <= last, or None, got {value!r}. For one step, give it twice."
        )
    return first, last


def _one_of(accepted: tuple[str, ...]) -> Callable[[str, Any], str]:
    """Returns the check of a setting that is one of some texts."""

    def check(name: str, value: Any) -> str:
        if value not in accepted:
            raise ValueError(
                f"RunConfig: {name} must be one of {list(accepted)}, got {value!r}. Correct it."
            )
        return str(value)

    return check


def _protocol(name: str, value: Any) -> Any:
    del name
    return value


def _cluster(name: str, value: Any) -> ClusterConfig:
    if value is None:
        return cluster_config_from_environment()
    if not isinstance(value, ClusterConfig):
        raise ArgumentTypeError(
            f"RunConfig: {name} must be a ClusterConfig, got {value!r}. Pass None to read "
            "TF_CONFIG."
        )
    return value


def _strategy(name: str, value: Any) -> Any:
    strategy_request(name, value)
    return value


def _strategies(name: str, value: Any) -> Any:
    """Checks a DistributeConfig: fields train_distribute, eval_distribute and remote_cluster."""
    if value is None:
        return None
    if not all(hasattr(value, field) for field in ("train_distribute", "eval_distribute")):
        raise ArgumentTypeError(
            f"RunConfig: {name} must be a tf.contrib.distribute.DistributeConfig or None, got "
            f"{value!r}. Pass train_distribute and eval_distribute instead."
        )
    if getattr(value, "remote_cluster", None):
        raise ValueError(
            f"RunConfig: {name} names the remote_cluster {value.remote_cluster!r}, which is not "
            "supported. Leave it out, and start each process of the cluster with TF_CONFIG."
        )
    strategy_request(f"{name}.train_distribute", value.train_distribute)
    strategy_request(f"{name}.eval_distribute", value.eval_distribute)
    return value


CHECKS: Mapping[str, Callable[[str, Any], Any]] = {
    "model_dir": _path,
    "tf_random_seed": _whole(None),
    "save_summary_steps": _whole(0),
    "save_checkpoints_steps": _whole(0),
    "save_checkpoints_secs": _number(">= 0", lambda number: number >= 0),
    "session_config": _session_config,
    "keep_checkpoint_max": _whole(0),
    "keep_checkpoint_every_n_hours": _positive(_DEFAULT_KEEP_HOURS),
    "log_step_count_steps": _whole(1),
    "train_distribute": _strategy,
    "device_fn": _device_fn,
    "protocol": _protocol,
    "eval_distribute": _strategy,
    "experimental_distribute": _strategies,
    "experimental_max_worker_delay_secs": _whole(0),
    "session_creation_timeout_secs": _positive(math.inf),
    "checkpoint_save_graph_def": _flag,
    "save_input_position": _flag,
    "continue_input": _flag,
    "profile_steps": _profile_steps,
    "progress": _one_of(PROGRESS_MODES),
    "step_timeout_secs": _positive(),
    "max_restarts": _restarts,
    "steal_model_dir": _flag,
    "on_save_error": _one_of(SAVE_ERROR_MODES),
    "cluster": _cluster,
}
"""The check of each setting, by its name: fn(name, value) → the value to keep."""
