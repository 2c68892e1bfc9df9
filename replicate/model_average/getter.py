"""The custom getter of model averaging: makes each weight twice.

The model works with a local variable on the worker's own device. Its center, which holds the
average over the workers, is a global variable wherever the surrounding device scope puts variables:
on the parameter servers. Local variables begin with what the centers hold, so that a worker that
comes late begins with the newest average. `ModelAverageOptimizer` moves values between the two.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import tensorflow as tf

from replicate._types import Variable
from replicate.checkpoint_names import save_as

v1 = tf.compat.v1

GLOBAL_VARIABLE_NAME = "global_center_variable"
"""What the name of a center begins with; the name of its local variable follows."""

_AVERAGED = ("replicate", "averaged_variables")
"""Key of the `Averaged` of a graph. Not a string: never exported."""

_POSITIONAL = ("shape", "dtype", "initializer", "regularizer", "reuse", "trainable", "collections")
_LOCAL_ONLY = ("regularizer", "constraint", "partitioner", "caching_device")


class Averaged(NamedTuple):
    """A weight of the model.

    Attributes:
      local: Variable that this worker trains.
      center: Variable with the average over all workers.
      getter: What made them.
    """

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

    Trainable variables of a floating-point type are averaged. All others that `get_variable` makes
    stay what they are, one for all workers: the moving averages of batch normalization are updated
    by every worker in each of its steps. To keep such a variable to each worker, put it into the
    collection LOCAL_VARIABLES.
    """

    def __init__(self, worker_device: str):
        """Takes the device of this worker, such as "/job:worker/task:1"; "" without a cluster.

        Raises:
          TypeError: It is no string.
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
        """Returns the getter of the process that a `RunConfig` describes."""
        task = f"/job:{config.task_type}/task:{config.task_id}"
        return cls(task if config.master and config.cluster_spec.jobs else "")

    @property
    def averaged(self) -> list[Averaged]:
        """What this getter has made in the default graph, in order."""
        return [pair for pair in averaged_variables() if pair.getter is self]

    def __call__(
        self, getter: Callable[..., Variable], name: str, *args: Any, **kwargs: Any
    ) -> Variable:
        """Returns the local variable of a weight, or an ordinary variable.

        Args:
          getter: Makes one variable, or finds it under reuse.
          name: Full name of the variable.
          *args: Further arguments of `get_variable`.
          **kwargs: Likewise.
        """
        asked = {**dict(zip(_POSITIONAL, args, strict=False)), **kwargs}
        if not _is_averaged(asked):
            return getter(name, **asked)
        collections = list(asked.get("collections") or [v1.GraphKeys.GLOBAL_VARIABLES])
        center = getter(f"{GLOBAL_VARIABLE_NAME}/{name}", **_of_center(asked, collections))
        with v1.device(self.worker_device):
            local = getter(name, **_of_local(asked, collections, center))
        if all(local is not pair.local for pair in averaged_variables()):
            v1.add_to_collection(_AVERAGED, Averaged(local, center, self))
            save_as(center, local.op.name)
        return local


def averaged_variables() -> list[Averaged]:
    """Returns the weights that the getters of the default graph have made."""
    return list(v1.get_collection(_AVERAGED))


def _is_averaged(asked: Mapping[str, Any]) -> bool:
    """Whether these arguments of `get_variable` ask for a weight."""
    collections = asked.get("collections") or [v1.GraphKeys.GLOBAL_VARIABLES]
    is_weight = asked.get("trainable") in (None, True)
    return is_weight and v1.GraphKeys.GLOBAL_VARIABLES in collections and _dtype(asked).is_floating


def _dtype(asked: Mapping[str, Any]) -> tf.DType:
    initializer = asked.get("initializer")
    if initializer is not None and not callable(initializer):
        return tf.convert_to_tensor(initializer).dtype
    return tf.as_dtype(asked.get("dtype") or tf.float32).base_dtype


def _of_center(asked: Mapping[str, Any], collections: list[str]) -> dict[str, Any]:
    return {
        **{key: None if key in _LOCAL_ONLY else value for key, value in asked.items()},
        "trainable": False,
        "collections": [key for key in collections if key != v1.GraphKeys.TRAINABLE_VARIABLES],
        "use_resource": True,
    }


def _of_local(asked: Mapping[str, Any], collections: list[str], center: Variable) -> dict[str, Any]:
    # Inside of the initializer, everything would be colocated with the local variable.
    with tf.init_scope(), v1.device(center.device), v1.name_scope("first_value"):
        is_there = v1.is_variable_initialized(center)
        first_value = tf.cond(is_there, center.read_value, lambda: center.initial_value)

    kept = [key for key in collections if key != v1.GraphKeys.GLOBAL_VARIABLES]
    return {
        **{key: None if key == "partitioner" else value for key, value in asked.items()},
        "shape": center.shape,
        "dtype": center.dtype.base_dtype,
        "initializer": lambda *_, **__: first_value,
        "trainable": True,
        "collections": [*kept, v1.GraphKeys.LOCAL_VARIABLES],
    }
