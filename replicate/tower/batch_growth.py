"""Growth of tensors with the batch: tells sums over rows from means, by the graph alone.

If each row of a batch is repeated k times, a sum over the rows is multiplied by k, a mean stays as
it is, and the square of a sum is multiplied by k². So the degree of a tensor, the exponent of k,
follows from those of its inputs, as units of measurement do: products add degrees, quotients
subtract them, a sum over the rows adds one. A loss of degree 1 is a sum, one of degree 0 a mean.

Networks are taken to map rows to rows: the result of an operation without a rule has degree 0 if
its inputs do and the position of the rows can be seen in its shape. Else the degree is unknown.
`loss_verdicts` asks for losses.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from fractions import Fraction
from typing import Any, NamedTuple, TypeAlias, final

import tensorflow as tf

from replicate._types import Operation, Tensor
from replicate.tower.operation_kinds import (
    COMPARISONS,
    HOMOGENEOUS,
    LINKED_BY_LOOPS,
    POWERS,
    PRODUCTS,
    REDUCTIONS,
    SUMS,
    UNARY,
)

Degree: TypeAlias = Fraction | int


class Growth(NamedTuple):
    """Dependence of a tensor on the number of times that the rows of the batch are repeated.

    Attributes:
      degree: Exponent of that number in the tensor's values.
      axis: Axis of the rows, counted from the end, so below 0. None: there is none.
      constants: Tensors that were added to it, and do not depend on the batch.
      sizes: The degree of each entry, if the tensor is a vector of sizes; else empty.
      is_located: False if the tensor may have rows on an axis that is not known.
    """

    degree: Degree = 0
    axis: int | None = None
    constants: tuple[Tensor, ...] = ()
    sizes: tuple[Degree, ...] = ()
    is_located: bool = True


CONSTANT = Growth()
_LOST = Growth(is_located=False)


@final
class BatchGrowth:
    """Growth of the tensors of one tower with its part of the batch."""

    def __init__(self, known: Mapping[Any, Growth], rows: int | None):
        """Starts from tensors whose growth is known.

        Args:
          known: Growth by the `ref()` of a tensor. The search does not go beyond these.
          rows: Rows of the tower's part of the batch; None if that is not known.
        """
        self._known: dict[Any, Growth | None] = dict(known)
        self._rows = rows

    def tell(self, tensor: Tensor, growth: Growth) -> None:
        """Notes the growth of a tensor, in place of what its operation tells."""
        self._known[tensor.ref()] = growth

    def of(self, tensor: Tensor) -> Growth | None:
        """Returns the growth of a tensor; None if the graph does not tell."""
        pending = [tensor]
        while pending:
            top = pending[-1]
            if top.ref() in self._known:
                pending.pop()
                continue
            missing = [each for each in self._inputs(top.op) if each.ref() not in self._known]
            if missing:
                pending += missing
            else:
                pending.pop()
                self._known[top.ref()] = self._computed(top)
        return self._known[tensor.ref()]

    def _inputs(self, operation: Operation) -> list[Tensor]:
        """Returns the inputs that are looked at. Loops of control flow version 1 are not."""
        return [] if operation.type in LINKED_BY_LOOPS else list(operation.inputs)

    def _computed(self, tensor: Tensor) -> Growth | None:
        operation = tensor.op
        if operation.type in LINKED_BY_LOOPS:
            return self._located(tensor, 0)
        found = [self._known[each.ref()] for each in operation.inputs]
        inputs = [each for each in found if each is not None]
        if len(inputs) < len(found):
            return None
        if all(each == CONSTANT for each in inputs):
            return Growth(1) if self._is_size_of_batch(tensor) else CONSTANT
        rule = _RULES.get(operation.type, BatchGrowth._of_network)
        growth = rule(self, tensor, inputs)
        has_lost = growth and not growth.constants and any(each.constants for each in inputs)
        return None if has_lost else growth

    def _is_size_of_batch(self, tensor: Tensor) -> bool:
        """Returns True for an entry of a shape that TensorFlow has made a constant."""
        operation = tensor.op
        if operation.type != "StridedSlice" or self._rows is None or tensor.shape.rank != 0:
            return False
        shape, begin = (tf.get_static_value(each) for each in operation.inputs[:2])
        is_vector = shape is not None and begin is not None and shape.ndim == 1 == begin.size
        return bool(is_vector and shape[int(begin[0])] == self._rows)

    def _located(self, tensor: Tensor, degree: Degree) -> Growth | None:
        """Returns the growth of a tensor whose rows are found by its shape."""
        if tensor.dtype == tf.variant:
            return _LOST
        shape = tensor.shape
        if shape.rank is None:
            return _LOST if degree == 0 else None
        if shape.rank == 0:
            return None
        dimensions = shape.as_list()
        wanted = None if None in dimensions else self._rows
        axes = [axis for axis, size in enumerate(dimensions) if size == wanted]
        if wanted is None and None not in dimensions:
            return None
        if len(axes) == 1:
            return Growth(degree, axes[0] - shape.rank)
        return _LOST if axes and degree == 0 else None

    def _of_network(self, tensor: Tensor, inputs: Sequence[Growth]) -> Growth | None:
        """Returns the growth of an operation without a rule, which maps rows to rows."""
        if any(each.degree != 0 or any(each.sizes) for each in inputs):
            return None
        return self._located(tensor, 0)

    def _of_homogeneous(self, tensor: Tensor, inputs: Sequence[Growth]) -> Growth | None:
        is_linear = tensor.op.type not in ("Abs", "LeakyRelu", "Relu")
        return inputs[0] if is_linear else inputs[0]._replace(constants=())

    def _of_unary(self, tensor: Tensor, inputs: Sequence[Growth]) -> Growth | None:
        only_shape = tensor.op.type in ("OnesLike", "Sign", "ZerosLike")
        if not only_shape and (inputs[0].degree != 0 or inputs[0].sizes):
            return None
        return inputs[0]._replace(degree=0, constants=(), sizes=())

    def _of_power(self, tensor: Tensor, inputs: Sequence[Growth]) -> Growth | None:
        exponent: Any = POWERS.get(tensor.op.type)
        if exponent is None:
            exponent = tf.get_static_value(tensor.op.inputs[1])
            if inputs[1] != CONSTANT or (inputs[0].degree != 0 and exponent is None):
                return None
            exponent = 0 if exponent is None or exponent.size > 1 else Fraction(exponent.item())
        return inputs[0]._replace(degree=inputs[0].degree * exponent, constants=())

    def _of_product(self, tensor: Tensor, inputs: Sequence[Growth]) -> Growth | None:
        if any(map(self._is_rows_as_number, tensor.op.inputs)):
            return None  # Either `x.shape[0]`, or a number that is the same by chance.
        first, second = inputs
        sign = PRODUCTS[tensor.op.type]
        growth = self._elementwise(tensor, inputs, first.degree + sign * second.degree)
        is_scaled = second == CONSTANT or (first == CONSTANT and sign > 0)
        constants = (*first.constants, *second.constants) if is_scaled else ()
        return growth and growth._replace(constants=constants)

    def _is_rows_as_number(self, tensor: Tensor) -> bool:
        """Returns True for the number of rows as a constant, such as `x.shape[0]`."""
        value = tf.get_static_value(tensor)
        rows = self._rows
        if value is None or value.size != 1 or rows is None or rows < 2:
            return False
        return value.item() in (rows, 1 / rows)

    def _of_sum(self, tensor: Tensor, inputs: Sequence[Growth]) -> Growth | None:
        operands = list(zip(tensor.op.inputs, inputs, strict=True))
        terms = [(x, growth) for x, growth in operands if growth != CONSTANT]
        degrees = {growth.degree for _, growth in terms}
        if len(degrees) > 1:
            return None
        [degree] = degrees
        constants = [each for _, growth in terms for each in growth.constants]
        if degree != 0:
            added = [x for x, growth in operands if growth == CONSTANT and not _is_number(x)]
            is_sum = tensor.op.type in ("Add", "AddN", "AddV2", "Sub") and tensor.shape.rank == 0
            if (added or constants) and not is_sum:
                return None
            constants += added
        growth = self._elementwise(tensor, inputs, degree)
        return growth and growth._replace(constants=tuple(constants))

    def _of_squared_difference(self, tensor: Tensor, inputs: Sequence[Growth]) -> Growth | None:
        growth = self._of_sum(tensor, inputs)
        return growth and growth._replace(degree=2 * growth.degree)

    def _of_comparison(self, tensor: Tensor, inputs: Sequence[Growth]) -> Growth | None:
        zeros = [_is_zero(x) for x in tensor.op.inputs]
        if len({each.degree for each in inputs}) > 1 and not any(zeros):
            return None
        return self._elementwise(tensor, inputs, 0)

    def _of_select(self, tensor: Tensor, inputs: Sequence[Growth]) -> Growth | None:
        choices = list(zip(tensor.op.inputs, inputs, strict=True))[1:]
        degrees = {growth.degree for x, growth in choices if not _is_zero(x)}
        if len(degrees) != 1 or inputs[0].degree != 0:
            return None
        return self._elementwise(tensor, inputs, degrees.pop())

    def _elementwise(
        self, tensor: Tensor, inputs: Iterable[Growth], degree: Degree
    ) -> Growth | None:
        """Returns the growth of an operation that broadcasts its inputs."""
        inputs = list(inputs)
        if any(each.sizes for each in inputs):
            return None
        axes = {each.axis for each in inputs if each.axis is not None}
        if len(axes) > 1:
            return None
        if not axes and not all(each.is_located for each in inputs):
            return self._located(tensor, degree)
        axis = axes.pop() if axes else None
        if axis is not None and any(
            growth.axis is None and growth.is_located and _varies(x, axis)
            for x, growth in zip(tensor.op.inputs, inputs, strict=True)
        ):
            return None  # It has a value of its own for each row, but is no part of the batch.
        return Growth(degree, axis)

    def _of_reduction(self, tensor: Tensor, inputs: Sequence[Growth]) -> Growth | None:
        operation, growth = tensor.op, inputs[0]
        reduced = operation.inputs[0]
        adds = REDUCTIONS.get(operation.type)
        if growth.sizes:
            is_product = operation.type == "Prod"
            return Growth(sum(growth.sizes)) if is_product else None
        if adds is None or inputs[1] != CONSTANT or not growth.is_located:
            return None
        if growth.axis is None:
            return growth
        rank, axes = reduced.shape.rank, tf.get_static_value(operation.inputs[1])
        if axes is None or rank is None:
            return None
        from_end = {int(axis) - rank if axis >= 0 else int(axis) for axis in axes.ravel()}
        if growth.axis in from_end:
            return Growth(growth.degree + adds)
        behind = sum(axis > growth.axis for axis in from_end)
        kept = operation.get_attr("keep_dims")
        return growth._replace(axis=growth.axis + (0 if kept else behind), constants=())

    def _of_half_squares(self, tensor: Tensor, inputs: Sequence[Growth]) -> Growth | None:
        del tensor
        [growth] = inputs
        if not growth.is_located or growth.sizes:
            return None
        return Growth(2 * growth.degree + (growth.axis is not None))

    def _of_cross_entropy(self, tensor: Tensor, inputs: Sequence[Growth]) -> Growth | None:
        """Returns the growth of losses [rows] of logits and labels, which lose the last axis."""
        if any(each.degree != 0 or each.sizes for each in inputs):
            return None
        if tensor.shape.rank == 1:  # Logits [rows, classes].
            return Growth(0, -1) if any(each.axis is not None for each in inputs) else _LOST
        return self._located(tensor, 0)

    def _of_product_of_matrices(self, tensor: Tensor, inputs: Sequence[Growth]) -> Growth | None:
        """Returns the growth of [.., m, k] times [.., k, n]; either may be transposed."""
        first, second = inputs
        if first.sizes or second.sizes or not (first.is_located and second.is_located):
            return self._of_network(tensor, inputs)
        flags = _transposed(tensor.op)
        degree = first.degree + second.degree
        axes = []
        for growth, flag in zip(inputs, flags, strict=True):
            axis = growth.axis
            axes.append(-3 - axis if flag and axis is not None and axis >= -2 else axis)
        if axes == [-1, -2]:
            return Growth(degree + 1)
        outer = {each for each in axes if each is not None}
        if axes[0] == -1 or axes[1] == -2 or len(outer) > 1:
            return None
        return Growth(degree, outer.pop() if outer else None)

    def _of_shape(self, tensor: Tensor, inputs: Sequence[Growth]) -> Growth | None:
        [growth] = inputs
        rank = tensor.op.inputs[0].shape.rank
        if rank is None or not growth.is_located:
            return None
        if growth.axis is None:
            return CONSTANT
        return Growth(sizes=tuple(int(axis == rank + growth.axis) for axis in range(rank)))

    def _of_size(self, tensor: Tensor, inputs: Sequence[Growth]) -> Growth | None:
        del tensor
        [growth] = inputs
        if not growth.is_located:
            return None
        return Growth(int(growth.axis is not None))

    def _of_slice(self, tensor: Tensor, inputs: Sequence[Growth]) -> Growth | None:
        """Returns the growth of a part; of a vector of sizes also that of one entry."""
        growth = inputs[0]
        if not growth.sizes:
            return self._of_structure(tensor, inputs)
        begin, end, strides = (tf.get_static_value(x) for x in tensor.op.inputs[1:])
        if begin is None or end is None or strides is None or begin.size != 1:
            return None
        first = None if tensor.op.get_attr("begin_mask") else int(begin[0])
        last = None if tensor.op.get_attr("end_mask") else int(end[0])
        if tensor.op.get_attr("shrink_axis_mask"):
            return Growth(growth.sizes[int(begin[0])])
        return _of_sizes(growth.sizes[first : last : int(strides[0])])

    def _of_block(self, tensor: Tensor, inputs: Sequence[Growth]) -> Growth | None:
        """Returns the growth of a part that begins at a place and has a size."""
        growth = inputs[0]
        if not growth.sizes:
            return self._of_structure(tensor, inputs)
        begin, size = (tf.get_static_value(x) for x in tensor.op.inputs[1:])
        if begin is None or size is None:
            return None
        first, length = begin.item(), size.item()  # A length of -1 takes all that is left.
        return _of_sizes(growth.sizes[first : None if length < 0 else first + length])

    def _of_pack(self, tensor: Tensor, inputs: Sequence[Growth]) -> Growth | None:
        if tensor.dtype.is_integer and all(x.shape.rank == 0 for x in tensor.op.inputs):
            return _of_sizes([each.degree for each in inputs])
        return self._of_structure(tensor, inputs)

    def _of_concat(self, tensor: Tensor, inputs: Sequence[Growth]) -> Growth | None:
        parts = inputs[:-1]
        if not any(each.sizes for each in parts):
            return self._of_structure(tensor, inputs)
        sizes: list[Degree] = []
        for x, growth in zip(tensor.op.inputs, parts, strict=False):
            length = x.shape.as_list()[0] if x.shape.rank == 1 else None
            if length is None or (growth != CONSTANT and not growth.sizes):
                return None
            sizes += growth.sizes or [0] * length
        return _of_sizes(sizes)

    def _of_structure(self, tensor: Tensor, inputs: Sequence[Growth]) -> Growth | None:
        """Returns the growth of an operation that moves values and computes none."""
        if any(each.sizes for each in inputs):
            return None
        degrees = {each.degree for each in inputs if each != CONSTANT}
        if len(degrees) != 1:
            return None
        if all(each.axis is None and each.is_located for each in inputs):
            return Growth(degrees.pop())
        return self._located(tensor, degrees.pop())

    def _of_expanded(self, tensor: Tensor, inputs: Sequence[Growth]) -> Growth | None:
        growth, axis = inputs[0], tf.get_static_value(tensor.op.inputs[1])
        rank = tensor.shape.rank
        if growth.sizes or growth.axis is None or rank is None or axis is None:
            return self._of_structure(tensor, inputs)
        place = axis.item()  # Programs also give it in a list.
        from_end = place if place < 0 else place - rank
        return growth._replace(axis=growth.axis - (growth.axis <= from_end), constants=())

    def _of_transposed(self, tensor: Tensor, inputs: Sequence[Growth]) -> Growth | None:
        growth, order = inputs[0], tf.get_static_value(tensor.op.inputs[1])
        if growth.axis is None or order is None:
            return self._of_structure(tensor, inputs)
        source = [int(axis) - len(order) for axis in order]
        return growth._replace(axis=source.index(growth.axis) - len(order), constants=())

    def _of_reshaped(self, tensor: Tensor, inputs: Sequence[Growth]) -> Growth | None:
        """Returns the growth of a tensor whose new shape is given by sizes or by numbers."""
        growth, shape = inputs
        if growth.sizes:
            return None
        if shape.sizes and growth.axis is not None:
            growing = [axis for axis, degree in enumerate(shape.sizes) if degree]
            return (
                growth._replace(axis=growing[0] - len(shape.sizes)) if len(growing) == 1 else None
            )
        found = self._of_structure(tensor, [growth])
        if found == _LOST or found is None:
            sizes = tensor.shape.as_list() if tensor.shape.rank else []
            leads = sizes and self._rows and (sizes[0] or 0) % self._rows == 0
            is_first = growth.axis is not None and tensor.op.inputs[0].shape.rank == -growth.axis
            return growth._replace(axis=-tensor.shape.rank) if leads and is_first else found
        return found

    def _of_sparse(self, tensor: Tensor, inputs: Sequence[Growth]) -> Growth | None:
        """Returns the growth of an operation on a SparseTensor, whose shape is no value of it."""
        return self._of_network(tensor, [each._replace(sizes=()) for each in inputs])

    def _of_sparse_reshaped(self, tensor: Tensor, inputs: Sequence[Growth]) -> Growth | None:
        """Returns the growth of the indices or of the shape of a SparseTensor of a new shape."""
        indices, shape = inputs[0], inputs[2]
        return indices if tensor.value_index == 0 else shape._replace(constants=())

    def _of_gathered(self, tensor: Tensor, inputs: Sequence[Growth]) -> Growth | None:
        """Returns the growth of rows of a table, looked up by a part of the batch."""
        table, indices = inputs[:2]
        rank = tensor.shape.rank
        if table.sizes:
            chosen = tf.get_static_value(tensor.op.inputs[1])
            if chosen is None:
                return None
            picked = [table.sizes[int(each)] for each in chosen.ravel()]
            return Growth(picked[0]) if chosen.ndim == 0 else _of_sizes(picked)
        if table != CONSTANT or indices.axis is None or rank is None or indices.degree != 0:
            return self._of_network(tensor, inputs)
        extra = rank - (tensor.op.inputs[1].shape.rank or 0)
        return Growth(0, indices.axis - extra)

    def _of_made(self, tensor: Tensor, inputs: Sequence[Growth]) -> Growth | None:
        """Returns the growth of a tensor that is made in a shape: filled, random or repeated."""
        shapes = [each for each in inputs if each.sizes]
        if len(shapes) != 1:
            return self._of_network(tensor, inputs)
        growing = [axis for axis, degree in enumerate(shapes[0].sizes) if degree]
        degree = sum(each.degree for each in inputs)
        if len(growing) != 1 or any(each.axis is not None for each in inputs):
            return None
        return Growth(degree, growing[0] - len(shapes[0].sizes))


def _of_sizes(sizes: Sequence[Degree]) -> Growth:
    return Growth(sizes=tuple(sizes)) if any(sizes) else CONSTANT


def _is_number(tensor: Tensor) -> bool:
    return tf.get_static_value(tensor) is not None


def _is_zero(tensor: Tensor) -> bool:
    if tensor.op.type == "ZerosLike":
        return True
    value = tf.get_static_value(tensor)
    return value is not None and not value.any()


def _varies(tensor: Tensor, axis: int) -> bool:
    """Returns True if a tensor may have different values along an axis, counted from the end."""
    shape = tensor.shape
    if shape.rank is not None and (-axis > shape.rank or shape[axis] == 1):
        return False
    value = tf.get_static_value(tensor)
    return value is None or bool((value != value.flat[0]).any())


def _transposed(operation: Operation) -> list[bool]:
    names = ("transpose_a", "transpose_b") if operation.type == "MatMul" else ("adj_x", "adj_y")
    return [operation.get_attr(name) for name in names]


_Rule: TypeAlias = Callable[[BatchGrowth, Tensor, Sequence[Growth]], Growth | None]

_RULES: Mapping[str, _Rule] = {
    **dict.fromkeys(HOMOGENEOUS, BatchGrowth._of_homogeneous),
    **dict.fromkeys(POWERS, BatchGrowth._of_power),
    **dict.fromkeys(UNARY, BatchGrowth._of_unary),
    **dict.fromkeys(SUMS, BatchGrowth._of_sum),
    **dict.fromkeys(PRODUCTS, BatchGrowth._of_product),
    **dict.fromkeys(COMPARISONS, BatchGrowth._of_comparison),
    **dict.fromkeys([*REDUCTIONS, "Prod"], BatchGrowth._of_reduction),
    **dict.fromkeys(
        ("MatMul", "BatchMatMul", "BatchMatMulV2"), BatchGrowth._of_product_of_matrices
    ),
    **dict.fromkeys(("Select", "SelectV2"), BatchGrowth._of_select),
    **dict.fromkeys(("GatherV2", "ResourceGather"), BatchGrowth._of_gathered),
    **dict.fromkeys(
        ["BroadcastTo", "Fill", "RandomStandardNormal", "RandomUniform", "TruncatedNormal"],
        BatchGrowth._of_made,
    ),
    **dict.fromkeys(
        ("SoftmaxCrossEntropyWithLogits", "SparseSoftmaxCrossEntropyWithLogits"),
        BatchGrowth._of_cross_entropy,
    ),
    **dict.fromkeys(
        ["MirrorPad", "Pad", "PadV2", "Split", "SplitV", "Squeeze", "Tile", "Unpack"],
        BatchGrowth._of_structure,
    ),
    **dict.fromkeys(
        ["SparseFillEmptyRows", "SparseReorder", "SparseTensorDenseMatMul", "SparseToDense"],
        BatchGrowth._of_sparse,
    ),
    "ConcatV2": BatchGrowth._of_concat,
    "ExpandDims": BatchGrowth._of_expanded,
    "L2Loss": BatchGrowth._of_half_squares,
    "Pack": BatchGrowth._of_pack,
    "Pow": BatchGrowth._of_power,
    "Reshape": BatchGrowth._of_reshaped,
    "Shape": BatchGrowth._of_shape,
    "Size": BatchGrowth._of_size,
    "Slice": BatchGrowth._of_block,
    "SparseReshape": BatchGrowth._of_sparse_reshaped,
    "SquaredDifference": BatchGrowth._of_squared_difference,
    "StridedSlice": BatchGrowth._of_slice,
    "Transpose": BatchGrowth._of_transposed,
}
