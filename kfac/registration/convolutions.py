"""Registration of convolutions: in one to three dimensions, depthwise, separable, repeated.

One function per kind of layer, which `LayerCollection` has as a method. Each checks Python values,
makes a block and adds it to a layer table. The formulas of blocks are in `kfac.fisher_blocks`. The
arguments `approx` and `reuse`, and the errors, are described in `kfac.registration.dense_layers`.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from kfac._types import Parameters, Tensor
from kfac.fisher_blocks.base import FisherBlock, as_tuple
from kfac.fisher_blocks.conv import (
    ConvDiagonalFB,
    ConvForm,
    ConvKFCBasicFB,
    DepthwiseConvDiagonalFB,
    DepthwiseConvKFCBasicFB,
)
from kfac.fisher_blocks.eigenbasis import ConvEKFACFB
from kfac.fisher_blocks.multi import ConvKFCBasicMultiIndepFB
from kfac.fisher_blocks.weight_sharing import ConvReduceFB
from kfac.fisher_factors.conv import PatchMask, Sampling
from kfac.fisher_factors.uses import as_uses, count_uses
from kfac.patches.extraction import DATA_FORMATS, ConvGeometry, spatial_entries
from kfac.registration.approximations import (
    APPROX_DIAGONAL_NAME,
    APPROX_EKFAC_NAME,
    APPROX_KRONECKER_REDUCE_NAME,
    APPROX_KRONECKER_SUA_NAME,
)
from kfac.registration.layer_table import LayerTable, as_key, tensors_of
from kfac.registration.scope import VARIABLE_SCOPE
from kfac.variables import name_of

_PADDINGS = ("SAME", "VALID")


def register_conv1d(
    table: LayerTable,
    params: Parameters,
    strides: Sequence[int],
    padding: str,
    inputs: Tensor,
    outputs: Tensor,
    dilations: Sequence[int] | None = None,
    approx: str | None = None,
    reuse: bool | str = VARIABLE_SCOPE,
    sub_sample_inputs: bool | None = None,
    sub_sample_patches: bool | None = None,
) -> None:
    """Registers a one-dimensional convolution, or one more tower of it.

    Args:
      table: The layer table; a `LayerCollection` passes its own.
      params: Filter [width, channels, outputs], or (filter, bias [outputs]).
      strides: (1, step, 1).
      padding: "SAME" or "VALID".
      inputs: [batch, width, channels].
      outputs: [batch, width, outputs], before the non-linearity.
      dilations: (1, step, 1), or None for an ordinary filter.
      approx: "kron", "ekfac", "kron_expand", which is "kron", or "kron_reduce".
      reuse: See `kfac.registration.dense_layers`.
      sub_sample_inputs: As in `register_conv2d`.
      sub_sample_patches: As in `register_conv2d`.

    Raises:
      ValueError: As in `kfac.registration.dense_layers`; or strides, padding or dilations are not
        as above.
    """
    params = as_key(params)
    chosen = table.resolve_approximation("conv1d", approx, params)
    geometry = _geometry(params, 1, padding, None, strides, dilations)
    form = ConvForm(sampling=Sampling(sub_sample_inputs, sub_sample_patches))
    block = _two_factor_block(chosen)(table, params, geometry, form)
    table.add(block, inputs, outputs, reuse)


def register_conv2d(
    table: LayerTable,
    params: Parameters,
    strides: Sequence[int],
    padding: str,
    inputs: Tensor,
    outputs: Tensor,
    data_format: str | None = None,
    dilations: Sequence[int] | None = None,
    approx: str | None = None,
    reuse: bool | str = VARIABLE_SCOPE,
    sub_sample_inputs: bool | None = None,
    sub_sample_patches: bool | None = None,
    patch_mask: Any = None,
) -> None:
    """Registers a convolution, or one more tower of it.

    Args:
      table: The layer table; a `LayerCollection` passes its own.
      params: Filter [rows, columns, channels, outputs], or (filter, bias [outputs]).
      strides: (1, down, right, 1), in the order of the data format.
      padding: "SAME" or "VALID".
      inputs: [batch, height, width, channels], or with "NCHW" channels first.
      outputs: [batch, height, width, outputs], or channels first, before the non-linearity.
      data_format: "NHWC" or "NCHW"; None means "NHWC".
      dilations: As strides, or None for an ordinary filter.
      approx: "kron", "kron_sua", "ekfac", "diagonal", "kron_expand", which is "kron", or
        "kron_reduce".
      reuse: See `kfac.registration.dense_layers`.
      sub_sample_inputs: True to compute the input factor from a random part of the examples; None
        means the setting of the collection's `CurvatureConfig`.
      sub_sample_patches: True to compute the input factor from a random part of the patches; None
        means the setting of the collection's `CurvatureConfig`.
      patch_mask: Numbers [rows, columns, channels] that multiply every patch.

    Raises:
      ValueError: As in `kfac.registration.dense_layers`; or strides, padding, dilations, data
        format or mask are not as above.
    """
    params = as_key(params)
    chosen = table.resolve_approximation("conv2d", approx, params)
    geometry = _geometry(params, 2, padding, data_format, strides, dilations)
    mask = _patch_mask(params, patch_mask)
    block: FisherBlock
    if chosen == APPROX_DIAGONAL_NAME:
        block = ConvDiagonalFB(table, params, geometry, mask)
    else:
        sampling = Sampling(sub_sample_inputs, sub_sample_patches)
        form = ConvForm(chosen == APPROX_KRONECKER_SUA_NAME, sampling, mask)
        _check_without_patches(params, chosen, form)
        block = _two_factor_block(chosen)(table, params, geometry, form)
    table.add(block, inputs, outputs, reuse)


def register_convolution(
    table: LayerTable,
    params: Parameters,
    inputs: Tensor,
    outputs: Tensor,
    padding: str,
    strides: Sequence[int] | None = None,
    dilation_rate: Sequence[int] | None = None,
    data_format: str | None = None,
    approx: str | None = None,
    reuse: bool | str = VARIABLE_SCOPE,
) -> None:
    """Registers a convolution in one to three dimensions, or one more tower of it.

    Args:
      table: The layer table; a `LayerCollection` passes its own.
      params: Filter [..., channels, outputs], or (filter, bias [outputs]).
      inputs: [batch, ..., channels], or channels first, as in `tf.nn.convolution`.
      outputs: [batch, ..., outputs], or channels first, before the non-linearity.
      padding: "SAME" or "VALID".
      strides: One step per dimension; None means 1.
      dilation_rate: One step per dimension; None means 1.
      data_format: As in `tf.nn.convolution`, such as "NCDHW"; None means channels last.
      approx: "kron", "ekfac", "kron_expand", which is "kron", or "kron_reduce".
      reuse: See `kfac.registration.dense_layers`.

    Raises:
      ValueError: As in `kfac.registration.dense_layers`; or the other arguments are not as above.
    """
    params = as_key(params)
    chosen = table.resolve_approximation("convolution", approx, params)
    rank = as_tuple(params)[0].shape.rank - 2
    full = [_with_batch_and_channels(steps, data_format) for steps in (strides, dilation_rate)]
    geometry = _geometry(params, rank, padding, data_format, *full)
    block = _two_factor_block(chosen)(table, params, geometry, ConvForm())
    table.add(block, inputs, outputs, reuse)


def register_depthwise_conv2d(
    table: LayerTable,
    params: Parameters,
    inputs: Tensor,
    outputs: Tensor,
    strides: Sequence[int],
    padding: str,
    rate: Sequence[int] | None = None,
    data_format: str | None = None,
    approx: str | None = None,
    reuse: bool | str = VARIABLE_SCOPE,
) -> None:
    """Registers a depthwise convolution, or one more tower of it.

    Args:
      table: The layer table; a `LayerCollection` passes its own.
      params: Filter [rows, columns, channels, multiplier]; there is no bias.
      inputs: [batch, height, width, channels], or with "NCHW" channels first.
      outputs: [batch, height, width, channels · multiplier], or channels first.
      strides: (1, down, right, 1), in the order of the data format.
      padding: "SAME" or "VALID".
      rate: Dilations (down, right), or None for an ordinary filter.
      data_format: "NHWC" or "NCHW"; None means "NHWC".
      approx: "diagonal" or "kron".
      reuse: See `kfac.registration.dense_layers`.

    Raises:
      ValueError: As in `kfac.registration.dense_layers`; or there is a bias, or the other arguments
        are not as above.
    """
    params = as_key(params)
    chosen = table.resolve_approximation("depthwise_conv2d", approx, params)
    if isinstance(params, tuple):
        raise ValueError(
            f"Cannot register depthwise convolution {name_of(params[0])!r} with "
            f"{len(params)} parameters. Pass its filter alone; register a bias by itself, "
            "with register_generic."
        )
    dilations = _with_batch_and_channels(rate, data_format)
    geometry = _geometry(params, 2, padding, data_format, strides, dilations)
    is_diagonal = chosen == APPROX_DIAGONAL_NAME
    block = (DepthwiseConvDiagonalFB if is_diagonal else DepthwiseConvKFCBasicFB)(
        table, params, geometry
    )
    table.add(block, inputs, outputs, reuse)


def register_separable_conv2d(
    table: LayerTable,
    depthwise_params: Parameters,
    pointwise_params: Parameters,
    inputs: Tensor,
    depthwise_outputs: Tensor,
    pointwise_outputs: Tensor,
    strides: Sequence[int],
    padding: str,
    rate: Sequence[int] | None = None,
    data_format: str | None = None,
    approx: str | None = None,
    reuse: bool | str = VARIABLE_SCOPE,
    depthwise_approx: str | None = None,
) -> None:
    """Registers a depthwise convolution and the 1x1 convolution after it, or a tower of them.

    Args:
      table: The layer table; a `LayerCollection` passes its own.
      depthwise_params: Filter [rows, columns, channels, multiplier].
      pointwise_params: Filter [1, 1, channels · multiplier, outputs], or (filter, bias).
      inputs: Inputs of the depthwise convolution.
      depthwise_outputs: Outputs of the depthwise convolution, which are the inputs of the other.
      pointwise_outputs: Outputs of the 1x1 convolution, before the non-linearity.
      strides: Strides of the depthwise convolution, as in `register_depthwise_conv2d`.
      padding: Padding of the depthwise convolution.
      rate: Dilations of the depthwise convolution.
      data_format: "NHWC" or "NCHW"; None means "NHWC".
      approx: Approximation of the 1x1 convolution, as in `register_conv2d`.
      reuse: See `kfac.registration.dense_layers`.
      depthwise_approx: Approximation of the depthwise convolution, as in
        `register_depthwise_conv2d`.

    Raises:
      ValueError: As in `register_depthwise_conv2d` and `register_conv2d`.
    """
    register_depthwise_conv2d(
        table, depthwise_params, inputs, depthwise_outputs, strides, padding, rate, data_format,
        depthwise_approx, reuse,
    )  # fmt: skip
    try:
        register_conv2d(
            table, pointwise_params, (1, 1, 1, 1), "VALID", depthwise_outputs,
            pointwise_outputs, data_format, None, approx, reuse,
        )  # fmt: skip
    except (TypeError, ValueError):
        table.remove_last_tower(depthwise_params)
        raise


def register_conv2d_multi(
    table: LayerTable,
    params: Parameters,
    strides: Sequence[int],
    padding: str,
    inputs: Tensor | Sequence[Tensor],
    outputs: Tensor | Sequence[Tensor],
    num_uses: int | None = None,
    data_format: str | None = None,
    dilations: Sequence[int] | None = None,
    approx: str | None = None,
    reuse: bool | str = VARIABLE_SCOPE,
) -> None:
    """Registers a convolution that is applied several times to an example, or a tower of it.

    Tensors are given as lists with one tensor per use; or as one tensor [uses, batch, ...]; or
    as one tensor [uses · batch, ...], together with `num_uses`. A list may also have such
    tensors of static shape, and `num_uses` is the sum of their uses.

    Args:
      table: The layer table; a `LayerCollection` passes its own.
      params: Filter, or (filter, bias), as in `register_conv2d`.
      strides: As in `register_conv2d`.
      padding: As in `register_conv2d`.
      inputs: Inputs of the layer.
      outputs: Outputs of the layer, before the non-linearity.
      num_uses: Number of times that the layer is applied, if the tensors do not show it.
      data_format: As in `register_conv2d`.
      dilations: As in `register_conv2d`.
      approx: "kron_indep", or "kron_expand", which is the same.
      reuse: See `kfac.registration.dense_layers`.

    Raises:
      ValueError: As in `register_conv2d`; or the number of uses is unknown, or differs.
    """
    params = as_key(params)
    name = name_of(as_tuple(params)[0])
    tensors_of(name, inputs, outputs)
    table.resolve_approximation("conv2d_multi", approx, params)
    geometry = _geometry(params, 2, padding, data_format, strides, dilations)
    uses = count_uses(inputs, count_uses(outputs, num_uses, 3, name), 3, name)
    block = ConvKFCBasicMultiIndepFB(table, params, geometry, uses)
    table.add(block, as_uses(inputs, 3), as_uses(outputs, 3), reuse, uses)


def _two_factor_block(approx: str) -> type[ConvKFCBasicFB | ConvEKFACFB | ConvReduceFB]:
    blocks: dict[str, type[ConvKFCBasicFB | ConvEKFACFB | ConvReduceFB]] = {
        APPROX_EKFAC_NAME: ConvEKFACFB,
        APPROX_KRONECKER_REDUCE_NAME: ConvReduceFB,
    }
    return blocks.get(approx, ConvKFCBasicFB)


def _geometry(
    params: Parameters,
    rank: int,
    padding: str,
    data_format: str | None,
    strides: Sequence[int] | None,
    dilations: Sequence[int] | None,
) -> ConvGeometry:
    """Checks a convolution's arguments; strides and dilations have entries for all axes."""
    weight = as_tuple(params)[0]
    layer = name_of(weight)
    if rank not in DATA_FORMATS or weight.shape.rank != rank + 2:
        raise ValueError(
            f"Cannot register convolution {layer}: its filter has shape {weight.shape}. Accepted "
            "is [..., channels, outputs] with one to three dimensions before, as many as the "
            "method says."
        )
    last, first = DATA_FORMATS[rank]
    if data_format not in {None, last, first}:
        raise ValueError(
            f"Cannot register convolution {layer}: data_format={data_format!r}. Accepted are "
            f"{last!r}, {first!r} and None."
        )
    if not isinstance(padding, str) or padding.upper() not in _PADDINGS:
        raise ValueError(
            f"Cannot register convolution {layer}: padding={padding!r}. Accepted are 'SAME' "
            "and 'VALID'. For explicit padding use tf.pad and 'VALID'."
        )
    channels_first = data_format == first
    return ConvGeometry(
        kernel=tuple(weight.shape.as_list()[:rank]),
        strides=spatial_entries(strides, "strides", layer, rank, channels_first),
        padding=padding.upper(),
        dilations=spatial_entries(dilations, "dilations", layer, rank, channels_first),
        channels_first=channels_first,
    )


def _with_batch_and_channels(
    steps: Sequence[int] | None, data_format: str | None
) -> tuple[int, ...] | None:
    if steps is None:
        return None
    is_first = data_format is not None and data_format.startswith("NC")
    return (1, 1, *steps) if is_first else (1, *steps, 1)


def _patch_mask(params: Parameters, mask: Any) -> PatchMask | None:
    if mask is None:
        return None
    weight = as_tuple(params)[0]
    numbers, expected = np.asarray(mask, dtype=float), tuple(weight.shape.as_list()[:3])
    if numbers.shape != expected:
        raise ValueError(
            f"Cannot register convolution {name_of(weight)}: patch_mask has shape "
            f"{numbers.shape}. Accepted are numbers of shape {expected}, as the filter's."
        )
    return tuple(numbers.ravel().tolist())


def _check_without_patches(params: Parameters, approx: str, form: ConvForm) -> None:
    has_none = approx in {APPROX_KRONECKER_SUA_NAME, APPROX_KRONECKER_REDUCE_NAME}
    if has_none and (form.patch_mask or any(form.sampling)):
        raise ValueError(
            f"Cannot register convolution {name_of(as_tuple(params)[0])!r}: {approx=} makes no "
            "patches to choose from or to mask. Leave out patch_mask, sub_sample_inputs and "
            "sub_sample_patches, or use approx='kron'."
        )
