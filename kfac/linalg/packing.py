"""Parts of a vector that share their operations: those [n] on the same device are one part.

Biases, scales and shifts are many and small, so the operations on them cost more to make and to
start than to run. Called by the step.
"""

import typing
from collections.abc import Sequence

import tensorflow as tf

from kfac._types import Tensor, Variable
from kfac.linalg.vectors import Vector

v1 = tf.compat.v1


@typing.final
class Packing(typing.NamedTuple):
    """A way to join parts of a vector.

    Attributes:
      groups: Positions of the parts that each packed part joins, in the order of the parts.
      sizes: Numbers of entries of these parts. They matter where a group has several.
    """

    groups: tuple[tuple[int, ...], ...]
    sizes: tuple[tuple[int, ...], ...]

    def joins(self, index: int) -> bool:
        """Returns True if a part is joined with others."""
        return any(index in group for group in self.groups if len(group) > 1)

    def pack(self, parts: Sequence[Vector]) -> list[Vector]:
        """Returns the packed parts.

        Args:
          parts: One for each variable. Those of a group have the same dtype.
        """
        return [_joined([parts[index] for index in group]) for group in self.groups]

    def unpack(self, packed: Sequence[Vector]) -> list[Vector]:
        """Undoes `pack`."""
        found: dict[int, Vector] = {}
        for part, group, sizes in zip(packed, self.groups, self.sizes, strict=True):
            found.update(zip(group, _split(part, sizes), strict=True))
        return [found[index] for index in range(len(found))]


def make_packing(parts: Sequence[Vector], variables: Sequence[Variable]) -> Packing:
    """Returns a packing that joins dense parts [n] of equal dtype and devices.

    Args:
      parts: A vector, one part for each variable.
      variables: The variables.
    """
    groups: dict[object, list[int]] = {}
    for index, (part, variable) in enumerate(zip(parts, variables, strict=True)):
        is_joined = not isinstance(part, tf.IndexedSlices) and part.shape.rank == 1
        key = (part.device, variable.device, part.dtype, variable.dtype) if is_joined else index
        groups.setdefault(key, []).append(index)
    return Packing(
        tuple(map(tuple, groups.values())),
        tuple(tuple(_size(variables[i]) for i in group) for group in groups.values()),
    )


def no_packing(parts: Sequence[Vector]) -> Packing:
    """Returns the packing that joins nothing."""
    return Packing(tuple((index,) for index in range(len(parts))), ((0,),) * len(parts))


def _size(variable: Variable) -> int:
    return int(variable.shape.num_elements())


def _joined(parts: Sequence[Vector]) -> Vector:
    if len(parts) == 1:
        return parts[0]
    with v1.device(parts[0].device):
        return tf.concat(list(parts), axis=0)


def _split(part: Vector, sizes: Sequence[int]) -> list[Tensor]:
    if len(sizes) == 1:
        return [part]
    with v1.device(part.device):
        return list(tf.split(part, list(sizes)))
