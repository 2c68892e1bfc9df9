"""Rules of growth for operations that compute values: sums, products, reductions, losses."""

from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from typing import Any

import tensorflow as tf

from replicate._types import Operation, Tensor
from replicate.tower.growth import CONSTANT, LOST, Degree, Growth, Output, Rule
from replicate.tower.operation_kinds import (
    COMPARISONS,
    HOMOGENEOUS,
    POWERS,
    PRODUCTS,
    REDUCTIONS,
    SUMS,
    UNARY,
)


def _of_homogeneous(output: Output, inputs: Sequence[Growth]) -> Growth | None:
    is_linear = output.tensor.op.type not in ("Abs", "LeakyRelu", "Relu")
    return inputs[0] if is_linear else inputs[0]._replace(constants=())


def _of_unary(output: Output, inputs: Sequence[Growth]) -> Growth | None:
    only_shape = output.tensor.op.type in ("OnesLike", "Sign", "ZerosLike")
    if not only_shape and (inputs[0].degree != 0 or inputs[0].sizes):
        return None
    return inputs[0]._replace(degree=0, constants=(), sizes=())


def _of_power(output: Output, inputs: Sequence[Growth]) -> Growth | None:
    exponent: Any = POWERS.get(output.tensor.op.type)
    if exponent is None:
        exponent = tf.get_static_value(output.tensor.op.inputs[1])
        if inputs[1] != CONSTANT or (inputs[0].degree != 0 and exponent is None):
            return None
        exponent = 0 if exponent is None or exponent.size > 1 else Fraction(exponent.item())
    return inputs[0]._replace(degree=inputs[0].degree * exponent, constants=())


def _of_product(output: Output, inputs: Sequence[Growth]) -> Growth | None:
    first, second = inputs
    x, y = output.tensor.op.inputs
    if _counts_rows(x, second, output.rows) or _counts_rows(y, first, output.rows):
        return None  # Either `x.shape[0]`, or a number that is the same by chance.
    sign = PRODUCTS[output.tensor.op.type]
    growth = _elementwise(output, inputs, first.degree + sign * second.degree)
    is_scaled = second == CONSTANT or (first == CONSTANT and sign > 0)
    constants = (*first.constants, *second.constants) if is_scaled else ()
    return growth and growth._replace(constants=constants)


def _counts_rows(tensor: Tensor, other: Growth, rows: int | None) -> bool:
    """Returns True for a constant that may be the number of rows, such as `x.shape[0]`.

    Beside a sum over rows it may be a multiple of it: the number of all that was added.
    """
    value = tf.get_static_value(tensor)
    if value is None or value.size != 1 or not value.item() or rows is None or rows < 2:
        return False
    number = value.item()
    count = number if number >= 1 else round(1 / number, 3)
    return count == rows or (other.degree != 0 and count > 0 and count % rows == 0)


def _of_sum(output: Output, inputs: Sequence[Growth]) -> Growth | None:
    operands = list(zip(output.tensor.op.inputs, inputs, strict=True))
    terms = [(x, growth) for x, growth in operands if growth != CONSTANT]
    degrees = {growth.degree for _, growth in terms}
    if len(degrees) > 1:
        return None
    [degree] = degrees
    constants = [each for _, growth in terms for each in growth.constants]
    if degree != 0:
        added = [x for x, growth in operands if growth == CONSTANT and not _is_number(x)]
        is_sum = (
            output.tensor.op.type in ("Add", "AddN", "AddV2", "Sub")
            and output.tensor.shape.rank == 0
        )
        if (added or constants) and not is_sum:
            return None
        constants += added
    growth = _elementwise(output, inputs, degree)
    return growth and growth._replace(constants=tuple(constants))


def _of_squared_difference(output: Output, inputs: Sequence[Growth]) -> Growth | None:
    growth = _of_sum(output, inputs)
    return growth and growth._replace(degree=2 * growth.degree)


def _of_comparison(output: Output, inputs: Sequence[Growth]) -> Growth | None:
    zeros = [_is_zero(x) for x in output.tensor.op.inputs]
    if len({each.degree for each in inputs}) > 1 and not any(zeros):
        return None
    return _elementwise(output, inputs, 0)


def _of_select(output: Output, inputs: Sequence[Growth]) -> Growth | None:
    choices = list(zip(output.tensor.op.inputs, inputs, strict=True))[1:]
    degrees = {growth.degree for x, growth in choices if not _is_zero(x)}
    if len(degrees) != 1 or inputs[0].degree != 0:
        return None
    return _elementwise(output, inputs, degrees.pop())


def _elementwise(output: Output, inputs: Iterable[Growth], degree: Degree) -> Growth | None:
    """Returns the growth of an operation that broadcasts its inputs."""
    inputs = list(inputs)
    if any(each.sizes for each in inputs):
        return None
    axes = {each.axis for each in inputs if each.axis is not None}
    if len(axes) > 1:
        return None
    if not axes and not all(each.is_located for each in inputs):
        return output.located(degree)
    axis = axes.pop() if axes else None
    if axis is not None and any(
        growth.axis is None and growth.is_located and _varies(x, axis)
        for x, growth in zip(output.tensor.op.inputs, inputs, strict=True)
    ):
        return None  # It has a value of its own for each row, but is no part of the batch.
    return Growth(degree, axis)


def _of_reduction(output: Output, inputs: Sequence[Growth]) -> Growth | None:
    operation, growth = output.tensor.op, inputs[0]
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


def _of_half_squares(output: Output, inputs: Sequence[Growth]) -> Growth | None:
    del output
    [growth] = inputs
    if not growth.is_located or growth.sizes:
        return None
    return Growth(2 * growth.degree + (growth.axis is not None))


def _of_cross_entropy(output: Output, inputs: Sequence[Growth]) -> Growth | None:
    """Returns the growth of losses [rows] of logits and labels, which lose the last axis."""
    if any(each.degree != 0 or each.sizes for each in inputs):
        return None
    if output.tensor.shape.rank == 1:  # Logits [rows, classes].
        return Growth(0, -1) if any(each.axis is not None for each in inputs) else LOST
    return output.located(0)


def _of_product_of_matrices(output: Output, inputs: Sequence[Growth]) -> Growth | None:
    """Returns the growth of [.., m, k] times [.., k, n]; either may be transposed."""
    first, second = inputs
    if first.sizes or second.sizes or not (first.is_located and second.is_located):
        return output.of_network(inputs)
    flags = _transposed(output.tensor.op)
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


RULES: Mapping[str, Rule] = {
    **dict.fromkeys(HOMOGENEOUS, _of_homogeneous),
    **dict.fromkeys(POWERS, _of_power),
    **dict.fromkeys(UNARY, _of_unary),
    **dict.fromkeys(SUMS, _of_sum),
    **dict.fromkeys(PRODUCTS, _of_product),
    **dict.fromkeys(COMPARISONS, _of_comparison),
    **dict.fromkeys([*REDUCTIONS, "Prod"], _of_reduction),
    **dict.fromkeys(("MatMul", "BatchMatMul", "BatchMatMulV2"), _of_product_of_matrices),
    **dict.fromkeys(("Select", "SelectV2"), _of_select),
    **dict.fromkeys(
        ("SoftmaxCrossEntropyWithLogits", "SparseSoftmaxCrossEntropyWithLogits"), _of_cross_entropy
    ),
    "L2Loss": _of_half_squares,
    "Pow": _of_power,
    "SquaredDifference": _of_squared_difference,
}
"""Rules by the type of an operation."""
