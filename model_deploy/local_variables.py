"""Local variables: variables that each worker of a cluster has for itself.

A device function decides where variables go, but it sees the operation and not the collections of a
variable. So it would put local variables on parameter servers, where all workers would share them.
`local_variables_on` looks at the collections before the device function is called. `create_clones`,
the towers of `replicate` and its Estimator build their models inside this context.
"""

import contextlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import tensorflow as tf

from model_deploy._types import Device, Variable

v1 = tf.compat.v1

_LOCAL = frozenset({v1.GraphKeys.LOCAL_VARIABLES, v1.GraphKeys.METRIC_VARIABLES})


def is_of_one_worker(arguments: Mapping[str, Any]) -> bool:
    """Returns True if a variable, given the arguments of its creator, is local to one worker.

    Variables of Keras metrics are local, too. Keras puts them into no collection and requests the
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
    """Returns job and task of an operation without state in the active device scopes.

    It adds such an operation to the graph to find out. The device is such as `/job:worker/task:1`,
    or "" if the scopes name no job.
    """
    with v1.control_dependencies(None), v1.name_scope(None):
        device = tf.DeviceSpec.from_string(tf.no_op(name="current_task/here").device or "")
    if device.job is None:
        return ""
    return str(tf.DeviceSpec(job=device.job, replica=device.replica, task=device.task).to_string())


def on_task(task: Device, device: Device) -> Device:
    """Returns a device of the same type and index on another task.

    The task is as `current_task` returns it; "" returns `device` unchanged. The device is one of
    any task, or without a task.
    """
    if not task:
        return device
    other = tf.DeviceSpec.from_string(device)
    kind = tf.DeviceSpec(device_type=other.device_type, device_index=other.device_index)
    return task + str(kind.to_string())


@contextlib.contextmanager
def local_variables_on(task: Device) -> Iterator[None]:
    """Places local variables on one task inside this context; other variables are unaffected.

    Local variables are those in LOCAL_VARIABLES or METRIC_VARIABLES, and those of Keras metrics.
    Device functions still choose among the devices of the task, but the job that they or the model
    set is ignored. The task is job and task, or only the job; "" changes nothing.
    """

    def create(next_creator: Callable[..., Variable], **kwargs: Any) -> Variable:
        if not is_of_one_worker(kwargs):
            return next_creator(**kwargs)
        with v1.device(task):
            return next_creator(**kwargs)

    with v1.variable_creator_scope(create) if task else contextlib.nullcontext():
        yield
