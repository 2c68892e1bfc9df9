"""Parts of a vector that share their operations: those [n] on the same device are one part.

Biases, scales and shifts are many and small, so the operations on them cost more to make and to
start than to run. Called by the step.
"""

import typing
from collections.abc import Mapping, Sequence

import tensorflow as tf

from kfac._types import Variable
from kfac.linalg.tensor_ops import concatenated, split
from kfac.linalg.vectors import Vector, entries

v1 = tf.compat.v1


@typing.final
class Packing(typing.NamedTuple):
    """A way to join parts of a vector.

    `groups` has the positions of the parts that each packed part joins, in the order of the parts;
    `sizes` the numbers of entries of the parts that are joined with others, by position.
    """

    groups: tuple[tuple[int, ...], ...]
    sizes: Mapping[int, int]

    def pack(self, parts: Sequence[Vector]) -> list[Vector]:
        """Returns the packed parts. Parts of a group have the same dtype."""
        packed = []
        for group in self.groups:
            with v1.device(entries(parts[group[0]]).device):
                packed.append(concatenated([parts[index] for index in group]))
        return packed

    def unpack(self, packed: Sequence[Vector]) -> list[Vector]:
        """Undoes `pack`."""
        found: dict[int, Vector] = {}
        for part, group in zip(packed, self.groups, strict=True):
            with v1.device(entries(part).device):
                parts = split(part, [self.sizes.get(index, 0) for index in group])
            found.update(zip(group, parts, strict=True))
        return [found[index] for index in range(len(found))]


def make_packing(parts: Sequence[Vector], variables: Sequence[Variable]) -> Packing:
    """Returns a packing that joins dense parts [n] of equal dtype and devices, one per variable."""
    groups: dict[object, list[int]] = {}
    for index, (part, variable) in enumerate(zip(parts, variables, strict=True)):
        is_joined = not isinstance(part, tf.IndexedSlices) and part.shape.rank == 1
        key = (part.device, variable.device, part.dtype, variable.dtype) if is_joined else index
        groups.setdefault(key, []).append(index)
    joined = [index for group in groups.values() if len(group) > 1 for index in group]
    sizes = {index: int(variables[index].shape.num_elements()) for index in joined}
    return Packing(tuple(map(tuple, groups.values())), sizes)


def no_packing(parts: Sequence[Vector]) -> Packing:
    """Returns the packing that joins nothing."""
    return Packing(tuple((index,) for index in range(len(parts))), {})
