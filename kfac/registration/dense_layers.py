"""Registration of layers without a geometry: dense, repeated, generic, or with an own block.

One function per kind of layer, which `LayerCollection` has as a method. Each makes a block and adds
it to a layer table. The formulas of blocks are in `kfac.fisher_blocks`. All functions have these
arguments besides the layer's tensors:

  approx: Name of an approximation; None means the approximation of its linked parameters, or else
    the default of the kind of layer.
  reuse: True adds a tower to a registered layer. False registers a new one. AUTO_REUSE adds a tower
    if the layer is registered. VARIABLE_SCOPE takes the flag of the current variable scope.

All functions raise ValueError if the approximation is unknown, `reuse` does not fit, a parameter
belongs to another layer, a tensor is of another graph, or registration is over; and TypeError if a
tensor is something else. In these cases the collection stays as it was.
"""

import math
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from kfac._types import Parameters, Scalar, Tensor
from kfac.fisher_blocks.base import FisherBlock, as_tuple
from kfac.fisher_blocks.dense import (
    DenseForm,
    FullyConnectedDiagonalFB,
    FullyConnectedKFACBasicFB,
)
from kfac.fisher_blocks.eigenbasis import FullyConnectedEKFACFB
from kfac.fisher_blocks.generic import NaiveDiagonalFB, NaiveFullFB
from kfac.fisher_blocks.multi import FullyConnectedMultiIndepFB, FullyConnectedSeriesFB
from kfac.fisher_factors.uses import as_uses, count_uses
from kfac.registration.approximations import (
    APPROX_DIAGONAL_NAME,
    APPROX_EKFAC_NAME,
    APPROX_FULL_NAME,
    APPROX_KRONECKER_IN_DIAG_NAME,
    APPROX_KRONECKER_NAME,
    APPROX_KRONECKER_REDUCE_NAME,
    APPROX_KRONECKER_SERIES_1_NAME,
    APPROX_KRONECKER_SERIES_2_NAME,
    SHARING,
)
from kfac.registration.layer_table import LayerTable, as_key, tensors_of
from kfac.registration.scope import VARIABLE_SCOPE
from kfac.variables import name_of

_SERIES = {APPROX_KRONECKER_SERIES_1_NAME: 1, APPROX_KRONECKER_SERIES_2_NAME: 2}


def register_fully_connected(
    table: LayerTable,
    params: Parameters,
    inputs: Tensor,
    outputs: Tensor,
    approx: str | None = None,
    dense_inputs: bool = True,
    reuse: bool | str = VARIABLE_SCOPE,
) -> None:
    """Registers a dense layer or an embedding, or one more tower of it.

    Args:
      table: The layer table; a `LayerCollection` passes its own.
      params: Weight [inputs, outputs], or (weight, bias [outputs]).
      inputs: [batch, inputs], or ids [batch] if the inputs are not dense.
      outputs: [batch, outputs], before the non-linearity.
      approx: "kron", "kron_in_diag", "kron_out_diag", "kron_both_diag", "ekfac" or "diagonal". Of a
        single position "kron_expand" and "kron_reduce" are "kron".
      dense_inputs: False if inputs are ids, that is, row numbers of the weight. Ids need a diagonal
        input factor, which is then the default.
      reuse: See the module.

    Raises:
      ValueError: See the module.
    """
    params = as_key(params)
    approx = _resolve_dense(table, params, approx, dense_inputs)
    block: FisherBlock
    if approx == APPROX_DIAGONAL_NAME:
        block = FullyConnectedDiagonalFB(table, params)
    elif approx == APPROX_EKFAC_NAME:
        block = FullyConnectedEKFACFB(table, params)
    else:
        block = FullyConnectedKFACBasicFB(table, params, _dense_form(approx, dense_inputs))
    table.add(block, inputs, outputs, reuse)


def register_fully_connected_multi(
    table: LayerTable,
    params: Parameters,
    inputs: Tensor | Sequence[Tensor],
    outputs: Tensor | Sequence[Tensor],
    num_uses: Scalar | None = None,
    approx: str | None = None,
    dense_inputs: bool = True,
    reuse: bool | str = VARIABLE_SCOPE,
    unordered: bool = False,
) -> None:
    """Registers a dense layer that is applied several times to an example, or a tower of it.

    Tensors are given as lists with one tensor per use, in the order of time; or as one tensor
    [uses, batch, ...]; or as one tensor [uses · batch, ...], together with `num_uses`. A list
    may also have such tensors of static shape, and `num_uses` is the sum of their uses. With
    `unordered` they have all uses of all examples as rows, in any order and with any axes,
    such as [batch, uses, ...].

    Args:
      table: The layer table; a `LayerCollection` passes its own.
      params: Weight [inputs, outputs], or (weight, bias [outputs]).
      inputs: Inputs of the layer; ids if they are not dense.
      outputs: Outputs of the layer, before the non-linearity.
      num_uses: Number of times that the layer is applied, if the tensors do not show it. An int, or
        an int Tensor [] if unordered.
      approx: "kron_indep", "kron_indep_in_diag", "kron_indep_out_diag",
        "kron_indep_both_diag", "kron_series_1" or "kron_series_2"; or "kron_expand", which is
        "kron_indep".
      dense_inputs: As in `register_fully_connected`. Ids must be [uses · batch] if unordered.
      reuse: See the module.
      unordered: True if rows are in any order. Needs `num_uses`, and an approximation that assumes
        independent uses.

    Raises:
      ValueError: See the module; or the number of uses is unknown, or differs.
    """
    params = as_key(params)
    name = name_of(as_tuple(params)[0])
    tensors_of(name, inputs, outputs)
    chosen = table.resolve_approximation("fully_connected_multi", approx, params)
    _check_not_reduced(name, chosen)
    uses: Scalar = num_uses
    if unordered:
        _check_unordered(name, num_uses, chosen)
    else:
        uses = count_uses(outputs, num_uses, 1, name)
        if dense_inputs or isinstance(inputs, (tuple, list)):
            count_uses(inputs, uses, 1, name)
    form = _dense_form(chosen, dense_inputs)
    if (approx is None or chosen in SHARING) and not dense_inputs:
        form = form._replace(diagonal_input=True)
    if not dense_inputs and (chosen in _SERIES or not form.diagonal_input):
        raise _ids_error(name, chosen, "kron_indep")
    block: FisherBlock
    if chosen in _SERIES:
        block = FullyConnectedSeriesFB(table, params, uses, _SERIES[chosen])
    else:
        block = FullyConnectedMultiIndepFB(table, params, uses, form)
    allowed = uses if isinstance(uses, int) else len(tf.nest.flatten(outputs))
    table.add(block, as_uses(inputs, 1), as_uses(outputs, 1), reuse, allowed)


def register_generic(
    table: LayerTable,
    params: Parameters,
    batch_size: Scalar,
    approx: str | None = None,
    reuse: bool | str = VARIABLE_SCOPE,
) -> None:
    """Registers parameters that fit no other layer, or one more tower of them.

    Args:
      table: The layer table; a `LayerCollection` passes its own.
      params: One parameter, or for "full" also a tuple.
      batch_size: Number of examples, an int or an int Tensor [].
      approx: "diagonal" or "full".
      reuse: See the module.

    Raises:
      ValueError: See the module; or several parameters are registered as "diagonal".
    """
    params = as_key(params)
    chosen = table.resolve_approximation("generic", approx, params)
    if chosen == APPROX_DIAGONAL_NAME and isinstance(params, tuple):
        raise ValueError(
            f"Cannot register layer {name_of(params[0])!r}: {len(params)} parameters together "
            "with approx='diagonal'. Register each by itself, or all with approx='full'."
        )
    block = (NaiveFullFB if chosen == APPROX_FULL_NAME else NaiveDiagonalFB)(table, params)
    table.add(block, batch_size, (), reuse, math.inf, takes_numbers=True)


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
      reuse: See the module.
      uses: Number of uses that each of its parameters has in the tower's graph.

    Raises:
      ValueError: See the module.
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
    table.add(block, inputs, outputs, reuse, uses, takes_numbers=True)


def _resolve_dense(
    table: LayerTable, params: Parameters, approx: str | None, dense_inputs: bool
) -> str:
    chosen = table.resolve_approximation("fully_connected", approx, params)
    if chosen in SHARING:
        chosen = APPROX_KRONECKER_NAME if dense_inputs else APPROX_KRONECKER_IN_DIAG_NAME
    if dense_inputs or _dense_form(chosen, False).diagonal_input:
        return chosen
    if approx is None and chosen == APPROX_KRONECKER_NAME:
        return APPROX_KRONECKER_IN_DIAG_NAME
    raise _ids_error(name_of(as_tuple(params)[0]), chosen, "kron")


def _dense_form(approx: str, dense_inputs: bool) -> DenseForm:
    return DenseForm(
        diagonal_input=approx.endswith(("in_diag", "both_diag")),
        diagonal_output=approx.endswith(("out_diag", "both_diag")),
        dense_inputs=dense_inputs,
    )


def _check_not_reduced(layer: str, approx: str) -> None:
    if approx == APPROX_KRONECKER_REDUCE_NAME:
        raise ValueError(
            f"Cannot register layer {layer!r} with approx={approx!r} by its uses: means over the "
            "positions of an example need to know which rows these are. Use register_positionwise, "
            "with inputs [batch, positions, inputs] or a list with one tensor per use."
        )


def _check_unordered(layer: str, num_uses: Scalar | None, approx: str) -> None:
    if num_uses is None or approx in _SERIES:
        raise ValueError(
            f"Cannot register layer {layer!r} with unordered=True: num_uses={num_uses!r}, "
            f"approx={approx!r}. Pass the number of uses, and one of the 'kron_indep' "
            "approximations; those of series need [uses, batch, ...]."
        )


def _ids_error(layer: str, approx: str, family: str) -> ValueError:
    return ValueError(
        f"Cannot register layer {layer!r}: approx={approx!r} and dense_inputs=False. Ids need a "
        f"diagonal input factor: approx='{family}_in_diag', '{family}_both_diag' or None."
    )
