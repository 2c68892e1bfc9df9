"""Registration of layers that are applied at each position of an example, and of tied embeddings.

Functions beside those of `kfac.registration.dense_layers`, with the same arguments and errors.
"""

import math
from collections.abc import Sequence
from typing import Any

from kfac._types import Parameters, Tensor
from kfac.fisher_blocks.base import as_tuple
from kfac.fisher_blocks.tied import TiedEmbeddingFB
from kfac.fisher_blocks.weight_sharing import SharedForm, WeightSharingFB
from kfac.linalg.tensor_ops import static_size
from kfac.registration.approximations import APPROX_KRONECKER_REDUCE_NAME
from kfac.registration.layer_table import LayerTable, as_key, tensors_of
from kfac.registration.scope import VARIABLE_SCOPE
from kfac.variables import name_of


def register_positionwise(
    table: LayerTable,
    params: Parameters,
    inputs: Tensor | Sequence[Tensor],
    outputs: Tensor | Sequence[Tensor],
    approx: str | None = None,
    mask: Tensor | Sequence[Tensor] | None = None,
    dense_inputs: bool = True,
    reuse: bool | str = VARIABLE_SCOPE,
) -> None:
    """Registers a dense layer that is applied at each position of an example, or a tower of it.

    Examples come first in all tensors. A layer that is applied in several places of the graph is
    given lists, with one tensor per place; these have the same examples, and any numbers of
    positions.

    Args:
      table: The layer table; a `LayerCollection` passes its own.
      params: Weight [inputs, outputs], or (weight, bias [outputs]). A weight may have several axes
        of outputs, or of inputs, as those of heads.
      inputs: [batch, positions, inputs], or with more axes of positions; ids [batch, positions] if
        they are not dense.
      outputs: [batch, positions, outputs], or [batch · positions, outputs], before the
        non-linearity.
      approx: "kron_expand" or "kron_reduce".
      mask: [batch, positions], false or zero where the loss ignores a position, or as many masks as
        there are inputs; None means that all count. Ignored positions count nowhere: neither in the
        sums of inputs nor in their number. Their gradients are zero.
      dense_inputs: False if inputs are ids, that is, row numbers of the weight.
      reuse: See `kfac.registration.dense_layers`.

    Raises:
      ValueError: See `kfac.registration.dense_layers`; or inputs, outputs and masks are not as
        above.
    """
    params = as_key(params)
    layer = name_of(as_tuple(params)[0])
    chosen = table.resolve_approximation("positionwise", approx, params)
    places, results, masks = map(_as_places, (inputs, outputs, mask))
    tensors_of(layer, (places, masks), results)
    features = int(dense_inputs)
    _check_places(layer, places, results, masks, features)
    axes = _output_axes(layer, params, places, features)
    form = SharedForm(chosen == APPROX_KRONECKER_REDUCE_NAME, axes, dense_inputs)
    block = WeightSharingFB(table, params, form)
    table.add(block, (places, masks), results, reuse, len(places))


def register_tied_embedding(
    table: LayerTable,
    params: Parameters,
    inputs: Sequence[Tensor],
    outputs: Sequence[Tensor],
    approx: str | None = None,
    reuse: bool | str = VARIABLE_SCOPE,
) -> None:
    """Registers an embedding whose table gives the logits, too, or one more tower of it.

    The table W [ids, size] is looked up, and multiplied in h Wᵀ. A bias of the logits is a layer of
    its own. Positions that the loss ignores count nowhere, as they have no gradients.

    Args:
      table: The layer table; a `LayerCollection` passes its own.
      params: The table.
      inputs: The ids [batch, positions], or with more axes, examples first; and h [..., size].
      outputs: The rows that are looked up [..., size]; and the logits [..., ids] before a bias.
      approx: "kron_expand".
      reuse: See `kfac.registration.dense_layers`.

    Raises:
      ValueError: See `kfac.registration.dense_layers`; or the tensors are not as above.
    """
    params = as_key(params)
    layer = name_of(as_tuple(params)[0])
    table.resolve_approximation("tied_embedding", approx, params)
    tensors_of(layer, inputs, outputs)
    sizes = [] if isinstance(params, tuple) else params.shape.as_list()
    given = [*inputs, *outputs]
    expected = [None, *sizes[1:], *sizes[1:], *sizes[:1]]
    fits = len(sizes) == 2 and len(inputs) == len(outputs) == 2 and given[0].dtype.is_integer
    if not fits or any(
        size is not None and (not tensor.shape.rank or static_size(tensor, -1) != size)
        for tensor, size in zip(given, expected, strict=True)
    ):
        raise ValueError(
            f"Cannot register layer {layer!r} as a tied embedding: its parameters have shape "
            f"{sizes}, its tensors {[str(tensor.shape) for tensor in given]}. Accepted are a table "
            "[ids, size], inputs (ids [batch, positions], hidden [..., size]), and outputs (looked "
            "up [..., size], logits [..., ids])."
        )
    table.add(TiedEmbeddingFB(table, params), tuple(inputs), tuple(outputs), reuse, 2)


def _as_places(tensors: Any) -> tuple[Tensor, ...]:
    if tensors is None:
        return ()
    return tuple(tensors) if isinstance(tensors, (tuple, list)) else (tensors,)


def _check_places(
    layer: str,
    places: Sequence[Tensor],
    results: Sequence[Tensor],
    masks: Sequence[Tensor],
    features: int,
) -> None:
    """Checks that there are positions, and a result and a mask, or none, for each place."""
    pairs = zip(masks, places, strict=False)
    fits = (
        len(places) == len(results)
        and len(masks) in {0, len(places)}
        and all((place.shape.rank or 0) > features for place in places)
        and all(
            mask.shape.is_compatible_with(p.shape[: p.shape.rank - features]) for mask, p in pairs
        )
    )
    examples = {static_size(place, 0) for place in places if fits} - {None}
    if not fits or len(examples) > 1:
        shapes = ([str(tensor.shape) for tensor in of_kind] for of_kind in (places, results, masks))
        raise ValueError(
            f"Cannot register layer {layer!r} along positions: the shapes of its inputs, outputs "
            f"and masks are {', '.join(map(str, shapes))}. Accepted are inputs [batch, positions, "
            "inputs], or ids [batch, positions], as many outputs, and no masks or as many [batch, "
            "positions]; the examples come first, and are the same in all places."
        )


def _output_axes(layer: str, params: Parameters, places: Sequence[Tensor], features: int) -> int:
    """Returns how many axes at the end of a weight have its outputs; the others have its inputs."""
    sizes = as_tuple(params)[0].shape.as_list()
    if not features:
        return len(sizes) - 1
    found = {static_size(place, -1) for place in places}
    fitting = [n for n in range(1, len(sizes)) if {math.prod(sizes[:-n])} == found]
    if not fitting:
        raise ValueError(
            f"Cannot register layer {layer!r} along positions: its weight has shape {sizes}, and "
            f"its inputs have {', '.join(map(str, found))} features. The first axes of the weight "
            "must have as many entries as there are features."
        )
    return fitting[0]
