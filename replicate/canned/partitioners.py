"""Partitioners: how variables are cut into parts for parameter servers.

Checkpoints hold partitioned variables whole, so they fit whatever the number of servers.
"""

from collections.abc import Callable
from typing import Any, TypeAlias

import tensorflow as tf

from replicate._types import Variable

v1 = tf.compat.v1

Partitioner: TypeAlias = Callable[..., list[int]]
"""Function (shape, dtype) → number of parts along each axis."""

MIN_SLICE_BYTES = 64 << 20
"""Smallest part of a table of embeddings or of the weights of a linear model, in bytes."""


def layer_partitioner(config: Any) -> Partitioner | None:
    """Returns the partitioner of a network's layers; None unless there are several servers."""
    servers = _servers(config)
    return v1.min_max_variable_partitioner(max_partitions=servers) if servers > 1 else None


def table_partitioner(config: Any, given: Partitioner | None) -> Partitioner | None:
    """Returns the partitioner of embeddings and linear weights; the `given` one goes first."""
    servers = _servers(config)
    if given is not None or servers <= 1:
        return given
    return v1.min_max_variable_partitioner(max_partitions=servers, min_slice_size=MIN_SLICE_BYTES)


def is_whole(variable: Variable) -> bool:
    """Returns True if a variable is not partitioned."""
    return isinstance(variable, tf.Variable)


def _servers(config: Any) -> int:
    return int(getattr(config, "num_ps_replicas", 0) or 0)
