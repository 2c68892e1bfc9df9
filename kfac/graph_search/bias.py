"""Biases: the parameter that is added to a layer's product, and the layer's output.

Follows the product of weights and inputs through the graph to the addition of a bias, as long as
the product has one consumer only. The bias may be on either side of the sum, in any of TensorFlow's
addition ops, after a reshape or after other terms were added. None of these ops changes the
gradient, so statistics of the product's gradient are also those of the bias. Called by the matchers
of linear layers.
"""

import math
from typing import NamedTuple

from kfac._types import Tensor, Variable
from kfac.graph_search.tower import Tower
from kfac.registration.subgraph import Use

SUMS = frozenset({"Add", "AddV2"})
ADDITIONS = SUMS | {"BiasAdd"}
SAME_NUMBERS = frozenset({"ExpandDims", "Identity", "Reshape", "Squeeze"})


class Biased(NamedTuple):
    """The end of a linear layer that has a bias.

    Gradients are taken of `outputs`: the sum; or the product, if the sum has another shape or other
    terms. `tensors` are the bias as it is added, and the sum.
    """

    bias: Variable
    outputs: Tensor
    tensors: tuple[Tensor, ...]


def find_bias(
    tower: Tower, product: Tensor, channels: int | None, channels_first: bool = False
) -> Biased | None:
    """Returns the bias that is added to a product of weights and inputs, or None.

    The product is [batch, ..., channels], or [batch, channels, ...] if `channels_first`. A bias has
    as many entries as `channels`.
    """
    tensor = product
    while True:
        use = tower.only_consumer(tensor)
        if use is None:
            return None
        result = use.op.outputs[0]
        if use.op.type in ADDITIONS:
            other = use.op.inputs[1 - use.position]
            bias = tower.variable_of(other)
            if bias is not None:
                if not _is_bias(use, other, channels, channels_first):
                    return None
                return Biased(bias, result if tensor is product else product, (other, result))
            if use.position or not _have_equal_shapes(tensor, result):
                return None
        elif use.op.type not in SAME_NUMBERS or use.position:
            return None
        tensor = result


def _have_equal_shapes(one: Tensor, other: Tensor) -> bool:
    if None in (one.shape.rank, other.shape.rank):
        return False
    return one.shape.as_list() == other.shape.as_list()


def _is_bias(use: Use, bias: Tensor, channels: int | None, channels_first: bool) -> bool:
    """Returns True if a term of a sum has one number per channel and no other axes."""
    if use.value.shape.rank is None or bias.shape.rank is None or None in bias.shape.as_list():
        return False
    sizes = bias.shape.as_list()
    if use.op.type == "BiasAdd":
        is_first = use.op.get_attr("data_format") == b"NCHW"
        return use.position == 0 and is_first == channels_first and sizes == [channels]
    while sizes and sizes[0] == 1:
        del sizes[0]
    if math.prod(sizes) != channels:
        return False
    if channels_first:
        return len(sizes) == use.value.shape.rank - 1 or channels == 1
    return sizes == use.value.shape.as_list()[use.value.shape.rank - len(sizes) :]
