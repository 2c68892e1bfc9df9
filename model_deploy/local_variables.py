"""Local variables: those that each worker of a cluster has for itself.

A device function, which decides where variables go, sees an operation and not the collections of
its variable: it would send local variables to parameter servers, where all workers would share
them. `local_variables_on` decides by the collections, before the device function is asked.
`create_clones`, the towers of `replicate` and its Estimator build their models inside.
"""

import contextlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import tensorflow as tf

from model_deploy._types import Device, Variable

v1 = tf.compat.v1

_LOCAL = frozenset({v1.GraphKeys.LOCAL_VARIABLES, v1.GraphKeys.METRIC_VARIABLES})


def is_of_one_worker(arguments: Mapping[str, Any]) -> bool:
    """Returns whether a variable is local, by the arguments of its creator or of `get_variable`.

    Variables of Keras metrics are local, too: Keras puts them into no collection, and asks for the
    sum over the replicas.
    """
    collections = arguments.get("collections")
    if collections is None:
        return False
    is_summed_on_read = (
        arguments.get("synchronization") == tf.VariableSynchronization.ON_READ
        and arguments.get("aggregation") == tf.VariableAggregation.SUM
    )
    return not _LOCAL.isdisjoint(collections) or (is_summed_on_read and not collections)


def current_task() -> Device:
    """Returns job and task of the operations that are made in the current device scopes.

    The answer is that for an operation without state, which stays in the graph.

    Returns:
      Such as `/job:worker/task:1`; "" where the scopes name no job.
    """
    with v1.control_dependencies(None), v1.name_scope(None):
        device = tf.DeviceSpec.from_string(tf.no_op(name="current_task/here").device or "")
    if device.job is None:
        return ""
    return str(tf.DeviceSpec(job=device.job, replica=device.replica, task=device.task).to_string())


def on_task(task: Device, device: Device) -> Device:
    """Returns the device of a task that is of the type and number of another one's.

    Args:
      task: Job and task, as `current_task` gives them; "" returns `device` as it is.
      device: Of any task, or of none.
    """
    if not task:
        return device
    other = tf.DeviceSpec.from_string(device)
    kind = tf.DeviceSpec(device_type=other.device_type, device_index=other.device_index)
    return task + str(kind.to_string())


@contextlib.contextmanager
def local_variables_on(task: Device) -> Iterator[None]:
    """Makes local variables on one task inside this context, and leaves all others alone.

    They are the variables that are made for LOCAL_VARIABLES or METRIC_VARIABLES, and those of Keras
    metrics. Device functions still choose among the devices of the task; the job that they, or the
    model, set does not count.

    Args:
      task: Job and task, or only the job; "" changes nothing.
    """

    def create(next_creator: Callable[..., Variable], **kwargs: Any) -> Variable:
        if not is_of_one_worker(kwargs):
            return next_creator(**kwargs)
        with v1.device(task):
            return next_creator(**kwargs)

    with v1.variable_creator_scope(create) if task else contextlib.nullcontext():
        yield
