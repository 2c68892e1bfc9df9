"""Recognises dense layers: products of a tensor [..., inputs] with a weight [inputs, outputs].

The op is a `MatMul`, a `BatchMatMul` of any version, or an `Einsum`; the layer may have a bias.
Called by the table of matchers.
"""

import math
from collections.abc import Sequence

import tensorflow as tf

from kfac._types import Tensor, Variable
from kfac.graph_search.bias import find_bias
from kfac.graph_search.plans import TensorSource
from kfac.graph_search.records import MatchRecord, NotRegistrableError, RecordType, with_part
from kfac.graph_search.tower import Tower
from kfac.linalg.tensor_ops import static_size
from kfac.registration.subgraph import Use

v1 = tf.compat.v1


def match_product(tower: Tower, variable: Variable, use: Use) -> list[MatchRecord]:
    """Returns the dense layers that a `MatMul` or `BatchMatMul` can be."""
    op = use.op
    flips = ("transpose_a", "transpose_b") if op.type == "MatMul" else ("adj_x", "adj_y")
    flips_inputs, flips_weight = (bool(op.get_attr(name)) for name in flips)
    if use.position == 0:
        raise NotRegistrableError(f"is the left factor of {op.name!r}, where rows are not examples")
    if flips_weight:
        return match_transposed(tower, variable, use, use)
    if use.value.shape.rank != 2:
        raise NotRegistrableError(f"is more than one matrix in {op.name!r}")
    taken = op.inputs[0]
    _check_inputs(tower, taken, use)
    if not flips_inputs:
        inputs = _before_folding(taken, use.value)
        return _records(tower, variable, use, inputs, inputs.shape.as_list()[:-1])
    if taken.shape.rank != 2:
        raise NotRegistrableError(f"has inputs in {op.name!r} that are transposed")

    def flipped() -> Tensor:
        with v1.device(taken.device):
            return tf.transpose(taken)

    return _records(tower, variable, use, flipped, taken.shape.as_list()[1:])


def match_transposed(tower: Tower, variable: Variable, use: Use, product: Use) -> list[MatchRecord]:
    """Returns the output layer h Wᵀ of a tied embedding W, if that is to have expand.

    `use` is that of the table, `product` that of the matrix by the op that multiplies it.
    """
    op = product.op
    if variable.shape.rank != 2 or not tower.sharing_of(variable):
        raise NotRegistrableError(
            f"is transposed in {op.name!r}; a weight must be [inputs, outputs]"
        )
    data = {"inputs": op.inputs[0], "outputs": op.outputs[0], "leading": ()}
    return [tower.match(RecordType.tied, variable, use, data, op.outputs[0])]


def match_transpose(tower: Tower, variable: Variable, use: Use) -> list[MatchRecord]:
    """Returns the output layer of a tied embedding that is transposed by an op of its own."""
    product = tower.only_consumer(use.op.outputs[0])
    is_factor = product is not None and product.op.type == "MatMul" and product.position == 1
    if product is None or not is_factor or use.position or variable.shape.rank != 2:
        raise NotRegistrableError(f"goes into {use.op.name!r}, and Transpose is no known layer")
    if product.op.get_attr("transpose_a") or product.op.get_attr("transpose_b"):
        raise NotRegistrableError(f"is transposed twice, in {use.op.name!r} and after it")
    return match_transposed(tower, variable, use, product)


def _before_folding(inputs: Tensor, weight: Tensor) -> Tensor:
    """Returns the tensor [..., inputs] from before its leading axes were folded into one."""
    if inputs.op.type != "Reshape":
        return inputs
    source = inputs.op.inputs[0]
    rank, size = source.shape.rank, static_size(weight, 0)
    if rank is None or rank < 3 or size is None or static_size(source, -1) != size:
        return inputs
    while source.op.type == "Transpose":
        order = tf.get_static_value(source.op.inputs[1])
        if order is None or list(order) != list(range(rank)):
            break
        source = source.op.inputs[0]
    return source


def match_einsum(tower: Tower, variable: Variable, use: Use) -> list[MatchRecord]:
    """Returns the dense layers that an `Einsum` can be: ...i,io->...o, in any letters.

    The weight may have several axes of inputs. It has one of outputs, or several if it is to have
    an approximation of weights that are shared along positions.
    """
    equation = use.op.get_attr("equation").decode().replace(" ", "")
    terms, _, result = equation.partition("->")
    operands = terms.split(",")
    most = len(operands[use.position]) if tower.sharing_of(variable) else 2
    fitting = [
        produced
        for produced in range(1, most)
        if len(operands) == 2
        and _is_dense(operands[1 - use.position], operands[use.position], result, produced)
    ]
    if not fitting:
        raise NotRegistrableError(
            f"is in {use.op.name!r} with {equation!r}; a dense layer is like '...i,io->...o'"
        )
    taken = use.op.inputs[1 - use.position]
    axes = len(operands[use.position]) - fitting[0]
    _check_inputs(tower, taken, use)
    leading = taken.shape.as_list()[:-axes]
    if axes == 1:
        return _records(tower, variable, use, taken, leading, fitting[0])
    size = use.value.shape[:axes].num_elements()

    def folded() -> Tensor:
        with v1.device(taken.device):
            return tf.reshape(taken, [-1, size])

    return _records(tower, variable, use, folded, leading, fitting[0])


def _check_inputs(tower: Tower, inputs: Tensor, use: Use) -> None:
    if tower.is_of_variables(inputs):
        raise NotRegistrableError(f"is multiplied in {use.op.name!r} with other parameters only")
    if inputs.shape.rank is None:
        raise NotRegistrableError(f"has inputs in {use.op.name!r} of unknown shape")


def _is_dense(inputs: str, weight: str, result: str, axes: int) -> bool:
    """Returns True for a dense layer whose weight has as many axes of outputs at its end."""
    contracted, produced = weight[:-axes], weight[-axes:]
    leading = inputs[: len(inputs) - len(contracted)]
    return (
        "." not in weight
        and bool(contracted)
        and bool(leading)
        and inputs.endswith(contracted)
        and result == leading + produced
        and not set(leading) & set(weight)
        and len(set(weight)) == len(weight)
    )


def _records(
    tower: Tower,
    variable: Variable,
    use: Use,
    inputs: TensorSource,
    leading: Sequence[int | None],
    axes: int = 1,
) -> list[MatchRecord]:
    """Returns the layer without a bias and, if a bias follows, the layer with it.

    The inputs are [..., inputs], with axes of the sizes `leading` before those of inputs. `axes` is
    the number of axes of outputs at the end of the weight, as the op takes it.
    """
    op, product = use.op, use.op.outputs[0]
    outputs = use.value.shape[-axes:].num_elements()
    data = {"inputs": inputs, "leading": leading, "outputs": product}
    data |= tower.sharing_of(variable)
    alone = tower.match(RecordType.fully_connected, variable, use, data)
    is_whole = static_size(variable, -1) == outputs
    if not is_whole and "sharing" in data and _is_split(variable, outputs):
        data["output_axes"] = True
    records = [alone] if is_whole or "output_axes" in data else []
    found = find_bias(tower, product, outputs)
    if found is not None:
        both = with_part(alone, found.bias, found.tensors, " with a bias", outputs=found.outputs)
        records.append(both)
    if not records:
        raise NotRegistrableError(
            f"has {variable.shape.rank} axes and is reshaped for {op.name!r}, without a bias"
        )
    return records


def _is_split(variable: Variable, outputs: int | None) -> bool:
    """Returns True if some axes at the end of a weight have all the outputs."""
    sizes = variable.shape.as_list()
    return outputs in [math.prod(sizes[-axes:]) for axes in range(1, len(sizes))]
