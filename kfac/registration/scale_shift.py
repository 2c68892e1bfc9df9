"""Registration of y = x∘scale + shift: alone, or at the end of a layer or batch normalization.

`LayerCollection` has these functions as methods. The formulas of blocks are in
`kfac.fisher_blocks.scale_shift`. The arguments `approx` and `reuse`, and the errors, are those of
`kfac.registration.dense_layers`.
"""

from kfac._types import Parameters, Tensor
from kfac.fisher_blocks.scale_shift import ScaleAndShiftDiagonalFB, ScaleAndShiftFullFB
from kfac.registration.approximations import APPROX_FULL_NAME
from kfac.registration.layer_table import LayerTable, as_key
from kfac.registration.scope import VARIABLE_SCOPE


def register_scale_and_shift(
    table: LayerTable,
    params: Parameters,
    inputs: Tensor,
    outputs: Tensor,
    approx: str | None = None,
    reuse: bool | str = VARIABLE_SCOPE,
) -> None:
    """Registers y = x∘scale + shift, or one more tower of it.

    Args:
      table: The layer table; a `LayerCollection` passes its own.
      params: Scale, or (scale, shift); each broadcasts to an example.
      inputs: x [batch, ...].
      outputs: y [batch, ...].
      approx: "full" or "diagonal".
      reuse: See the module.

    Raises:
      ValueError: See the module.
    """
    params = as_key(params)
    chosen = table.resolve_approximation("scale_and_shift", approx, params)
    block = (ScaleAndShiftFullFB if chosen == APPROX_FULL_NAME else ScaleAndShiftDiagonalFB)(
        table, params
    )
    table.add(block, inputs, outputs, reuse)


def register_layer_norm(
    table: LayerTable,
    params: Parameters,
    normalized: Tensor,
    outputs: Tensor,
    approx: str | None = None,
    reuse: bool | str = VARIABLE_SCOPE,
) -> None:
    """Registers the end of a layer or batch normalization; see `register_scale_and_shift`.

    Its inputs are what is normalized, [batch, ...], of zero mean and unit variance.
    """
    register_scale_and_shift(table, params, normalized, outputs, approx, reuse)
