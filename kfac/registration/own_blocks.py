"""Registration of blocks that a program defines itself.

A program derives such a block from a class of `kfac.fisher_blocks`. `LayerCollection` has the
function as a method.
"""

from typing import Any

from kfac.fisher_blocks.base import FisherBlock
from kfac.registration.layer_table import LayerTable
from kfac.registration.scope import VARIABLE_SCOPE


def register_block(
    table: LayerTable,
    block: FisherBlock,
    inputs: Any,
    outputs: Any,
    reuse: bool | str = VARIABLE_SCOPE,
    uses: float = 1,
) -> None:
    """Registers a layer with a block that the program defines, or one more tower of it.

    Every tower makes a block, with the same class, parameters and settings. The first is kept.

    Args:
      table: The layer table; a `LayerCollection` passes its own.
      block: A block without towers, of the layer's parameters.
      inputs: Tensors that enter the layer, structured as the block needs them.
      outputs: Tensors that leave the layer. The block is given their gradients.
      reuse: See `kfac.registration.dense_layers`.
      uses: Number of uses that each of its parameters has in the tower's graph.

    Raises:
      ValueError: See `kfac.registration.dense_layers`.
      TypeError: `block` is no block, or a tensor is something else.
    """
    if not isinstance(block, FisherBlock):
        raise TypeError(
            f"Cannot register {block!r} as a block: it is of type {type(block).__name__}. Accepted "
            "is an object of a class below kfac.fisher_blocks.FisherBlock, which knows its "
            "parameters: register_block(Block(layer_collection, params), inputs, outputs), where "
            "tensorflow/kfac has register_block(params, block). "
            "See docs/howto/kfac_registration.md."
        )
    table.add(block, inputs, outputs, reuse, uses)
