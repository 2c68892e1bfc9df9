"""Rules of growth for operations that move values, make tensors of a shape, or tell a shape."""

from collections.abc import Mapping, Sequence

import tensorflow as tf

from replicate._types import Tensor
from replicate.tower.growth import CONSTANT, LOST, Degree, Growth, Output, Rule


def _of_shape(output: Output, inputs: Sequence[Growth]) -> Growth | None:
    [growth] = inputs
    rank = output.tensor.op.inputs[0].shape.rank
    if rank is None or not growth.is_located:
        return None
    if growth.axis is None:
        return CONSTANT
    return Growth(sizes=tuple(int(axis == rank + growth.axis) for axis in range(rank)))


def _of_size(output: Output, inputs: Sequence[Growth]) -> Growth | None:
    del output
    [growth] = inputs
    if not growth.is_located:
        return None
    return Growth(int(growth.axis is not None))


def _of_slice(output: Output, inputs: Sequence[Growth]) -> Growth | None:
    """Returns the growth of a part; of a vector of sizes also that of one entry."""
    growth = inputs[0]
    if not growth.sizes:
        return _of_structure(output, inputs)
    begin, end, strides = (tf.get_static_value(x) for x in output.tensor.op.inputs[1:])
    if begin is None or end is None or strides is None or begin.size != 1:
        return None
    first = None if output.tensor.op.get_attr("begin_mask") else int(begin[0])
    last = None if output.tensor.op.get_attr("end_mask") else int(end[0])
    if output.tensor.op.get_attr("shrink_axis_mask"):
        return Growth(growth.sizes[int(begin[0])])
    return _of_sizes(growth.sizes[first : last : int(strides[0])])


def _of_block(output: Output, inputs: Sequence[Growth]) -> Growth | None:
    """Returns the growth of a part that begins at a place and has a size."""
    growth = inputs[0]
    if not growth.sizes:
        return _of_structure(output, inputs)
    first, length = (_place(x) for x in output.tensor.op.inputs[1:])
    if first is None or length is None:
        return None
    # A length of -1 takes all that is left.
    return _of_sizes(growth.sizes[first : None if length < 0 else first + length])


def _place(tensor: Tensor) -> int | None:
    """Returns the one number of a tensor, also of a difference such as rank - 1."""
    operation = tensor.op
    if operation.type == "Pack" and len(operation.inputs) == 1:
        return _place(operation.inputs[0])
    if operation.type == "Sub":
        first, second = (tf.get_static_value(each) for each in operation.inputs)
        return None if first is None or second is None else int(first - second)
    value = tf.get_static_value(tensor)
    return None if value is None or value.size != 1 else int(value.item())


def _of_pack(output: Output, inputs: Sequence[Growth]) -> Growth | None:
    if output.tensor.dtype.is_integer and all(x.shape.rank == 0 for x in output.tensor.op.inputs):
        return _of_sizes([each.degree for each in inputs])
    return _of_structure(output, inputs)


def _of_concat(output: Output, inputs: Sequence[Growth]) -> Growth | None:
    parts = inputs[:-1]
    if not any(each.sizes for each in parts):
        return _of_structure(output, inputs)
    sizes: list[Degree] = []
    for x, growth in zip(output.tensor.op.inputs, parts, strict=False):
        length = x.shape.as_list()[0] if x.shape.rank == 1 else None
        if length is None or (growth != CONSTANT and not growth.sizes):
            return None
        sizes += growth.sizes or [0] * length
    return _of_sizes(sizes)


def _of_structure(output: Output, inputs: Sequence[Growth]) -> Growth | None:
    """Returns the growth of an operation that moves values and computes none."""
    if any(each.sizes for each in inputs):
        return None
    degrees = {each.degree for each in inputs if each != CONSTANT}
    if len(degrees) != 1:
        return None
    if all(each.axis is None and each.is_located for each in inputs):
        return Growth(degrees.pop())
    return output.located(degrees.pop())


def _of_expanded(output: Output, inputs: Sequence[Growth]) -> Growth | None:
    growth, axis = inputs[0], tf.get_static_value(output.tensor.op.inputs[1])
    rank = output.tensor.shape.rank
    if growth.sizes or growth.axis is None or rank is None or axis is None:
        return _of_structure(output, inputs)
    place = axis.item()  # Programs also give it in a list.
    from_end = place if place < 0 else place - rank
    return growth._replace(axis=growth.axis - (growth.axis <= from_end), constants=())


def _of_transposed(output: Output, inputs: Sequence[Growth]) -> Growth | None:
    growth, order = inputs[0], tf.get_static_value(output.tensor.op.inputs[1])
    if growth.axis is None or order is None:
        return _of_structure(output, inputs)
    source = [int(axis) - len(order) for axis in order]
    return growth._replace(axis=source.index(growth.axis) - len(order), constants=())


def _of_reshaped(output: Output, inputs: Sequence[Growth]) -> Growth | None:
    """Returns the growth of a tensor whose new shape is given by sizes or by numbers."""
    growth, shape = inputs
    if growth.sizes:
        return None
    if shape.sizes and growth.axis is not None:
        growing = [axis for axis, degree in enumerate(shape.sizes) if degree]
        return growth._replace(axis=growing[0] - len(shape.sizes)) if len(growing) == 1 else None
    found = _of_structure(output, [growth])
    if found == LOST or found is None:
        sizes = output.tensor.shape.as_list() if output.tensor.shape.rank else []
        leads = sizes and output.rows and (sizes[0] or 0) % output.rows == 0
        is_first = growth.axis is not None and output.tensor.op.inputs[0].shape.rank == -growth.axis
        return growth._replace(axis=-output.tensor.shape.rank) if leads and is_first else found
    return found


def _of_sparse(output: Output, inputs: Sequence[Growth]) -> Growth | None:
    """Returns the growth of an operation on a SparseTensor, whose shape is no value of it."""
    return output.of_network([each._replace(sizes=()) for each in inputs])


def _of_sparse_reshaped(output: Output, inputs: Sequence[Growth]) -> Growth | None:
    """Returns the growth of the indices or of the shape of a SparseTensor of a new shape."""
    indices, shape = inputs[0], inputs[2]
    return indices if output.tensor.value_index == 0 else shape._replace(constants=())


def _of_gathered(output: Output, inputs: Sequence[Growth]) -> Growth | None:
    """Returns the growth of rows of a table, looked up by a part of the batch."""
    table, indices = inputs[:2]
    rank = output.tensor.shape.rank
    if table.sizes:
        chosen = tf.get_static_value(output.tensor.op.inputs[1])
        if chosen is None:
            return None
        picked = [table.sizes[int(each)] for each in chosen.ravel()]
        return Growth(picked[0]) if chosen.ndim == 0 else _of_sizes(picked)
    if table != CONSTANT or indices.axis is None or rank is None or indices.degree != 0:
        return output.of_network(inputs)
    extra = rank - (output.tensor.op.inputs[1].shape.rank or 0)
    return Growth(0, indices.axis - extra)


def _of_made(output: Output, inputs: Sequence[Growth]) -> Growth | None:
    """Returns the growth of a tensor that is made in a shape: filled, random or repeated."""
    shapes = [each for each in inputs if each.sizes]
    if len(shapes) != 1:
        return output.of_network(inputs)
    growing = [axis for axis, degree in enumerate(shapes[0].sizes) if degree]
    degree = sum(each.degree for each in inputs)
    if len(growing) != 1 or any(each.axis is not None for each in inputs):
        return None
    return Growth(degree, growing[0] - len(shapes[0].sizes))


def _of_sizes(sizes: Sequence[Degree]) -> Growth:
    return Growth(sizes=tuple(sizes)) if any(sizes) else CONSTANT


RULES: Mapping[str, Rule] = {
    **dict.fromkeys(("GatherV2", "ResourceGather"), _of_gathered),
    **dict.fromkeys(
        ["BroadcastTo", "Fill", "RandomStandardNormal", "RandomUniform", "TruncatedNormal"],
        _of_made,
    ),
    **dict.fromkeys(
        ["MirrorPad", "Pad", "PadV2", "Split", "SplitV", "Squeeze", "Tile", "Unpack"], _of_structure
    ),
    **dict.fromkeys(
        ["SparseFillEmptyRows", "SparseReorder", "SparseTensorDenseMatMul", "SparseToDense"],
        _of_sparse,
    ),
    "ConcatV2": _of_concat,
    "ExpandDims": _of_expanded,
    "Pack": _of_pack,
    "Reshape": _of_reshaped,
    "Shape": _of_shape,
    "Size": _of_size,
    "Slice": _of_block,
    "SparseReshape": _of_sparse_reshaped,
    "StridedSlice": _of_slice,
    "Transpose": _of_transposed,
}
"""Rules by the type of an operation."""
