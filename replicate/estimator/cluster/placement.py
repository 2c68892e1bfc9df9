"""Placement of a training graph in a cluster: variables on the servers, the rest on its own task.

Only some tasks build such a graph. Called by the Estimator.
"""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import tensorflow as tf

from model_deploy.devices import completed
from model_deploy.local_variables import current_task, local_variables_on
from replicate.estimator.cluster.brief_session import own_device
from replicate.estimator.keras_names import Scope
from replicate.estimator.run_config import RunConfig
from replicate.roles import TRAINERS

v1 = tf.compat.v1


def check_trains(config: RunConfig) -> None:
    """Checks that this process is one that trains.

    Raises:
      ValueError: It is an evaluator or a parameter server.
    """
    if not config.cluster.role.trains:
        raise ValueError(
            f"Cannot train: TF_CONFIG makes this process {config.task_type} {config.task_id}, and "
            f"only {', '.join(TRAINERS[:-1])} and {TRAINERS[-1]} train. Call "
            "replicate.train_and_evaluate, which does what each task is for, or change the task."
        )


def training_device(config: RunConfig) -> Callable[[Any], str] | None:
    """Returns the device function of a training graph: the user's, or that of the cluster."""
    if config.device_fn is not None or not config.num_ps_replicas:
        return config.device_fn
    return v1.train.replica_device_setter(
        ps_tasks=config.num_ps_replicas,
        worker_device=own_device(config),
        cluster=config.cluster_spec,
    )


@contextlib.contextmanager
def training_scope(config: RunConfig) -> Iterator[Scope]:
    """Builds a training graph inside: operations go where `training_device` says.

    Local variables stay on the task to which the device function assigns operations without state.
    So do operations that the model has assigned to that task.

    Yields:
      A function that makes the same context again, for another thread.
    """
    device_fn = training_device(config)
    if device_fn is None:
        yield contextlib.nullcontext
        return
    with v1.device(device_fn):
        task = current_task()
    place = _staying_on(task, device_fn) if task else device_fn

    @contextlib.contextmanager
    def scope() -> Iterator[None]:
        with v1.device(place), local_variables_on(task):
            yield

    with scope():
        yield scope


def _staying_on(task: str, device_fn: Callable[[Any], Any]) -> Callable[[Any], str]:
    """Returns a device function that keeps the operations of a task on the task.

    `device_fn`, for all other operations, may ignore the device that an operation has.
    """

    def place(operation: Any) -> str:
        own, placed = operation.device or "", device_fn(operation) or ""
        if isinstance(placed, tf.DeviceSpec | v1.DeviceSpec):
            placed = placed.to_string()
        return completed(own, placed) if f"{own}/".startswith(f"{task}/") else str(placed)

    return place
