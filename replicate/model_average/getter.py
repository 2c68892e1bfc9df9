"""The custom getter of model averaging, which makes each weight twice.

The model uses a local variable on the worker's own device. The center of a weight holds the average
over the workers. It is a global variable and goes where the surrounding device scope puts
variables: to the parameter servers. A local variable starts with the value of its center, so a late
worker starts with the newest average. `ModelAverageOptimizer` copies values between the two.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import tensorflow as tf

from replicate._types import Variable
from replicate.saved.checkpoint_names import save_as

v1 = tf.compat.v1

GLOBAL_VARIABLE_NAME = "global_center_variable"
"""Prefix of a center's name; the name of its local variable follows."""

_AVERAGED = ("replicate", "averaged_variables")
"""Key of the `AveragedVariable`s of a graph. Not a string: never exported."""

_POSITIONAL = ("shape", "dtype", "initializer", "regularizer", "reuse", "trainable", "collections")
_LOCAL_ONLY = ("regularizer", "constraint", "partitioner", "caching_device")


class AveragedVariable(NamedTuple):
    """A weight: the variable that this worker trains, and the average over all workers."""

    local: Variable
    center: Variable
    getter: "ModelAverageCustomGetter"


class ModelAverageCustomGetter:
    """Makes the weights of a model for `ModelAverageOptimizer`.

    ```
    getter = ModelAverageCustomGetter("/job:worker/task:1")
    with tf.variable_scope("", custom_getter=getter):
        loss = model(features, labels)
    ```

    Trainable variables of a floating-point type are averaged. All other variables that
    `get_variable` makes are unchanged, and all workers share them: every worker updates the moving
    averages of batch normalization in each of its steps. To give each worker a variable of its own,
    put the variable into the collection LOCAL_VARIABLES.
    """

    def __init__(self, worker_device: str):
        """Keeps the device.

        Args:
          worker_device: Device of this worker, such as "/job:worker/task:1"; "" without a cluster.

        Raises:
          TypeError: It is not a string.
        """
        if not isinstance(worker_device, str):
            raise TypeError(
                f"ModelAverageCustomGetter: worker_device must be the name of this worker's device "
                f'as a string, got {worker_device!r}. Pass "/job:worker/task:1", or "" without a '
                "cluster."
            )
        self.worker_device = worker_device

    @classmethod
    def of(cls, config: Any) -> "ModelAverageCustomGetter":
        """Returns the getter for the process that a `RunConfig` describes."""
        task = f"/job:{config.task_type}/task:{config.task_id}"
        return cls(task if config.master and config.cluster_spec.jobs else "")

    @property
    def averaged(self) -> list[AveragedVariable]:
        """Weights that this getter has made in the default graph, in order."""
        return [pair for pair in averaged_variables() if pair.getter is self]

    def __call__(
        self, getter: Callable[..., Variable], name: str, *args: Any, **kwargs: Any
    ) -> Variable:
        """Returns the local variable of a weight, or an ordinary variable.

        Args:
          getter: Makes one variable, or returns an existing one under reuse.
          name: Full name of the variable.
          *args: Further arguments of `get_variable`.
          **kwargs: Further keyword arguments of `get_variable`.
        """
        arguments = {**dict(zip(_POSITIONAL, args, strict=False)), **kwargs}
        if not _is_averaged(arguments):
            return getter(name, **arguments)
        collections = list(arguments.get("collections") or [v1.GraphKeys.GLOBAL_VARIABLES])
        center = getter(
            f"{GLOBAL_VARIABLE_NAME}/{name}", **_center_arguments(arguments, collections)
        )
        with v1.device(self.worker_device):
            local = getter(name, **_local_arguments(arguments, collections, center))
        if all(local is not pair.local for pair in averaged_variables()):
            v1.add_to_collection(_AVERAGED, AveragedVariable(local, center, self))
            save_as(center, local.op.name)
        return local


def averaged_variables() -> list[AveragedVariable]:
    """Returns the weights that all getters have made in the default graph."""
    return list(v1.get_collection(_AVERAGED))


def _is_averaged(arguments: Mapping[str, Any]) -> bool:
    """Returns True if these arguments of `get_variable` ask for a weight."""
    collections = arguments.get("collections") or [v1.GraphKeys.GLOBAL_VARIABLES]
    is_weight = arguments.get("trainable") in (None, True)
    return (
        is_weight and v1.GraphKeys.GLOBAL_VARIABLES in collections and _dtype(arguments).is_floating
    )


def _dtype(arguments: Mapping[str, Any]) -> tf.DType:
    initializer = arguments.get("initializer")
    if initializer is not None and not callable(initializer):
        return tf.convert_to_tensor(initializer).dtype
    return tf.as_dtype(arguments.get("dtype") or tf.float32).base_dtype


def _center_arguments(arguments: Mapping[str, Any], collections: list[str]) -> dict[str, Any]:
    return {
        **{key: None if key in _LOCAL_ONLY else value for key, value in arguments.items()},
        "trainable": False,
        "collections": [key for key in collections if key != v1.GraphKeys.TRAINABLE_VARIABLES],
        "use_resource": True,
    }


def _local_arguments(
    arguments: Mapping[str, Any], collections: list[str], center: Variable
) -> dict[str, Any]:
    # Made outside of the initializer, in which all ops would be colocated with the local variable.
    with tf.init_scope(), v1.device(center.device), v1.name_scope("first_value"):
        is_there = v1.is_variable_initialized(center)
        first_value = tf.cond(is_there, center.read_value, lambda: center.initial_value)

    kept = [key for key in collections if key != v1.GraphKeys.GLOBAL_VARIABLES]
    return {
        **{key: None if key == "partitioner" else value for key, value in arguments.items()},
        "shape": center.shape,
        "dtype": center.dtype.base_dtype,
        "initializer": lambda *_, **__: first_value,
        "trainable": True,
        "collections": [*kept, v1.GraphKeys.LOCAL_VARIABLES],
    }
