"""Strategies that place variables on parameter servers.

They are `ps_strategy` of `tf.train.replica_device_setter`, which calls them with each variable's
operation.
"""

import random
from collections.abc import Callable
from typing import Any

import tensorflow as tf


def byte_size_load_fn(op: Any) -> int:
    """Returns the bytes of a variable.

    Args:
      op: Operation of one output that holds a variable, or makes its handle.

    Raises:
      ValueError: It has several outputs, or its shape is not known.
    """
    if len(op.outputs) != 1:
        raise ValueError(
            f"byte_size_load_fn takes operations with one output: {op.name} has {len(op.outputs)}."
        )
    if op.type == "VarHandleOp":
        shape, dtype = _handle_attributes(op)
    else:
        shape, dtype = op.outputs[0].shape, op.outputs[0].dtype.base_dtype
    elements = shape.num_elements()
    if elements is None:
        raise ValueError(f"byte_size_load_fn needs the shape of {op.name}: it is {shape}.")
    return int(dtype.size * elements)


def _handle_attributes(op: Any) -> tuple[Any, Any]:
    return tf.TensorShape(op.get_attr("shape")), tf.as_dtype(op.get_attr("dtype"))


class RandomStrategy:
    """Chooses a task at random."""

    def __init__(self, num_ps_tasks: int, seed: int = 0) -> None:
        """Seeds the choice."""
        self._tasks = num_ps_tasks
        self._random = random.Random(seed)  # noqa: S311

    def __call__(self, op: Any) -> int:
        """Returns the task of an operation, from 0."""
        del op
        return self._random.randrange(self._tasks)


class GreedyLoadBalancingStrategy:
    """Chooses the task with the least load so far, the first one of several."""

    def __init__(self, num_tasks: int, load_fn: Callable[[Any], float]) -> None:
        """Starts without load. `load_fn` gives that of an operation, as `byte_size_load_fn`."""
        self._load_fn = load_fn
        self._loads = [0.0] * num_tasks

    def __call__(self, op: Any) -> int:
        """Returns the task of an operation, from 0, and adds its load."""
        task = self._loads.index(min(self._loads))
        self._loads[task] += self._load_fn(op)
        return task
