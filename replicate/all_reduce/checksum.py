"""Checksums of variables: a number for each, the same on all workers if the variables are."""

from collections.abc import Sequence
from typing import final

import numpy as np
import tensorflow as tf

from model_deploy.devices import CPU
from replicate._types import Tensor, Variable
from replicate.all_reduce.group import WorkerGroup, can_be_sent

v1 = tf.compat.v1


@final
class ChecksumComparison:
    """Comparison of variables over workers, by one number each.

    Make it when the graph has all its variables; it adds operations to the default graph.
    """

    def __init__(self, group: WorkerGroup, variables: Sequence[Variable] | None = None):
        """Adds the operations.

        Args:
          group: The workers.
          variables: Variables to compare; None for all of the graph.
        """
        compared = v1.global_variables() if variables is None else variables
        self._group = group
        self._variables = [each for each in compared if can_be_sent(each.dtype)]
        with v1.name_scope("checksums"), v1.device(CPU):
            sums = [checksum(variable.read_value()) for variable in self._variables]
            self._sums = group.of_each(tf.stack(sums))

    def differences(self, session: v1.Session) -> list[str]:
        """Returns a text for each worker with a variable that differs from the chief's.

        All workers must call this after the same step, and get the same result.
        """
        sums = session.run(self._sums)
        return _differences(sums, self._group.names, self._variables)


def checksum(values: Tensor) -> Tensor:
    """Returns a number that changes with each bit of a tensor and with the order, int64 []."""
    flat = tf.reshape(values, [-1])
    if flat.dtype.is_complex:
        flat = tf.concat([tf.math.real(flat), tf.math.imag(flat)], axis=0)
    if flat.dtype == tf.bool:
        bits = tf.cast(flat, tf.int64)
    else:
        integer = {1: tf.uint8, 2: tf.int16, 4: tf.int32, 8: tf.int64}[flat.dtype.size]
        bits = tf.cast(flat if flat.dtype == integer else tf.bitcast(flat, integer), tf.int64)
    factors = 2 * tf.range(tf.size(bits, tf.int64), dtype=tf.int64) + 1
    return tf.reduce_sum(bits * factors)


def _differences(
    sums: np.ndarray, names: Sequence[str], variables: Sequence[Variable]
) -> list[str]:
    found = []
    for name, own in zip(names, sums, strict=True):
        differing = np.flatnonzero(own != sums[0])
        if differing.size:
            first = variables[int(differing[0])].op.name
            found.append(f"{name}: {differing.size} of {len(variables)}, first {first!r}")
    return found
