"""Vectors in the space of the parameters, one part per variable, some of them sparse.

A part is a Tensor of the variable's shape, or IndexedSlices: the rows of a table that a batch
looked up, all others being zero. Parts stay sparse as long as the operations on them allow it.
Frequent operations use the joined parts, which takes one op instead of one per part. Other
operations run on the device of each part, so no part crosses to another device. Called by the
optimizer and its momentum rules.
"""

import functools
import typing
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import tensorflow as tf

from kfac._types import DType, Scalar, Tensor, Variable
from kfac.linalg import tensor_ops

v1 = tf.compat.v1

Vector: TypeAlias = Any
"""A Tensor, or IndexedSlices without repeated indices."""


class Joined(NamedTuple):
    """A dense vector, by part and as a whole.

    There is one part per variable; the whole [n] has the entries of all, one after the other.
    """

    parts: list[Tensor]
    whole: Tensor


def as_vector(gradient: Any, variable: Variable, keep_sparse: bool) -> Vector:
    """Returns a gradient as a part of a vector; IndexedSlices become a Tensor unless `keep_sparse`.

    Repeated indices of a gradient mean a sum.
    """
    if not isinstance(gradient, tf.IndexedSlices):
        return tensor_ops.with_shape(tf.convert_to_tensor(gradient), variable.shape)
    with v1.device(gradient.values.device):
        indices, position = tf.unique(gradient.indices)
        values = tf.math.unsorted_segment_sum(gradient.values, position, tf.size(indices))
        shape = tf.constant(variable.shape.as_list(), indices.dtype)
    slices = tf.IndexedSlices(values, indices, shape)
    return slices if keep_sparse else as_dense(slices)


def as_dense(vector: Vector) -> Tensor:
    """Returns a part with all its rows."""
    if not isinstance(vector, tf.IndexedSlices):
        return vector
    with v1.device(vector.values.device):
        return tf.scatter_nd(vector.indices[:, tf.newaxis], vector.values, vector.dense_shape)


def entries(vector: Vector) -> Tensor:
    """Returns all entries that may differ from zero."""
    return vector.values if isinstance(vector, tf.IndexedSlices) else vector


def map_entries(function: Callable[[Tensor], Tensor], vector: Vector) -> Vector:
    """Applies a function that keeps zero to every entry, where the entries are."""
    with v1.device(entries(vector).device):
        if not isinstance(vector, tf.IndexedSlices):
            return function(vector)
        return tf.IndexedSlices(function(vector.values), vector.indices, vector.dense_shape)


def choose(condition: Tensor, first: Vector, second: Vector) -> Vector:
    """Returns the first part if the condition, bool [], is true, else the second.

    The result is sparse if the first part is; the second then has the same indices.
    """
    other = second if isinstance(first, tf.IndexedSlices) else as_dense(second)
    return map_entries(lambda entry: tensor_ops.choose(condition, entry, entries(other)), first)


def scale(coefficient: Scalar, vectors: Sequence[Vector]) -> list[Vector]:
    """Returns c·x, c being of shape []."""
    pairs = zip(scalars(coefficient, vectors), vectors, strict=True)
    return [map_entries(functools.partial(tf.multiply, c), vector) for c, vector in pairs]


def scalars(coefficient: Scalar, vectors: Sequence[Vector]) -> list[Tensor]:
    """Returns c, shape [], for each part: where it is and in its dtype, once for all alike."""
    made: dict[tuple[str, DType], Tensor] = {}
    for device, dtype in [(entries(vector).device, vector.dtype) for vector in vectors]:
        if (device, dtype) not in made:
            with v1.device(device):
                made[device, dtype] = tensor_ops.as_scalar(coefficient, dtype)
    return [made[entries(vector).device, vector.dtype] for vector in vectors]


def add_scaled(first: Sequence[Vector], factor: Tensor, second: Sequence[Vector]) -> list[Tensor]:
    """Returns x + c·y, dense, c being of shape []; computed where the parts of y are."""
    sums = []
    for x, y in zip(first, second, strict=True):
        with v1.device(entries(y).device):
            sums.append(as_dense(x) + tf.cast(factor, y.dtype) * as_dense(y))
    return sums


def joined(parts: Sequence[Tensor], dtype: DType) -> Joined:
    """Returns a vector of dense parts with its entries in one Tensor of a dtype."""
    flat = [tf.cast(x if x.shape.rank == 1 else tf.reshape(x, [-1]), dtype) for x in parts]
    return Joined(list(parts), tf.concat(flat, axis=0) if len(flat) > 1 else flat[0])


def parted(whole: Tensor, like: Sequence[Tensor]) -> list[Tensor]:
    """Undoes `joined`, for parts with the static shapes and the dtypes of those given."""
    sizes = [x.shape.num_elements() for x in like]
    flat = tf.split(whole, sizes) if len(sizes) > 1 else [whole]
    return [
        tf.cast(x if y.shape.rank == 1 else tf.reshape(x, y.shape), y.dtype)
        for x, y in zip(flat, like, strict=True)
    ]


def inner_products(first: Sequence[Joined], second: Sequence[Vector], dtype: DType) -> list[Tensor]:
    """Returns x·y, shape [], of each of several vectors x with one y, computed in a dtype."""
    if any(isinstance(y, tf.IndexedSlices) for y in second):
        return [inner_product(x.parts, second, dtype) for x in first]
    whole = joined(second, dtype).whole
    return [inner_product([x.whole], [whole], dtype) for x in first]


def inner_product(first: Sequence[Vector], second: Sequence[Vector], dtype: DType) -> Tensor:
    """Returns x·y of two whole vectors, shape [], computed in a dtype.

    Where both have a sparse part, its indices are the same.
    """
    sum_of = tensor_ops.sums()
    products = []
    for x, y in zip(first, second, strict=True):
        left, right = _aligned(x, y)
        products.append(sum_of(tf.cast(left, dtype) * tf.cast(right, dtype)))
    return tf.add_n(products)


def squared_norm(vector: Sequence[Vector], dtype: DType) -> Tensor:
    """Returns x·x, shape [], computed in a dtype, in one pass over the entries."""
    return 2 * tf.add_n([tf.nn.l2_loss(tf.cast(entries(part), dtype)) for part in vector])


def _aligned(x: Vector, y: Vector) -> tuple[Tensor, Tensor]:
    """Returns the entries of both at the places where both may differ from zero."""
    x_is_sparse, y_is_sparse = (isinstance(v, tf.IndexedSlices) for v in (x, y))
    if x_is_sparse and not y_is_sparse:
        return x.values, tf.gather(y, x.indices)
    if y_is_sparse and not x_is_sparse:
        return tf.gather(x, y.indices), y.values
    return entries(x), entries(y)


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
            joint = [parts[index] for index in group]
            with v1.device(entries(joint[0]).device):
                packed.append(tf.concat(joint, axis=0) if len(joint) > 1 else joint[0])
        return packed

    def unpack(self, packed: Sequence[Vector]) -> list[Vector]:
        """Undoes `pack`."""
        found: dict[int, Vector] = {}
        for part, group in zip(packed, self.groups, strict=True):
            with v1.device(entries(part).device):
                sizes = [self.sizes.get(index, 0) for index in group]
                parts = tf.split(part, sizes) if len(sizes) > 1 else [part]
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
