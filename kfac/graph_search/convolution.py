"""Recognises convolutions in one to three dimensions, and depthwise ones.

TensorFlow turns a one-dimensional convolution into a two-dimensional one with an axis of size 1,
and some dilated ones into ordinary ones on a part of the pixels at a time, between `SpaceToBatchND`
and `BatchToSpaceND`. This module undoes both. Called by the table of matchers.
"""

from typing import Any, NamedTuple

import tensorflow as tf

from kfac._types import Tensor, Variable
from kfac.graph_search.bias import find_bias
from kfac.graph_search.records import MatchRecord, NotRegistrableError, RecordType, with_part
from kfac.graph_search.tower import Tower
from kfac.linalg.tensor_ops import static_size
from kfac.patches.extraction import DATA_FORMATS, extent
from kfac.registration.subgraph import Use


class _Convolution(NamedTuple):
    """A convolution as the model's author wrote it, with one stride and dilation per dimension.

    Padding is "SAME" or "VALID".
    """

    inputs: Tensor
    outputs: Tensor
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    padding: str
    channels_first: bool

    @property
    def rank(self) -> int:
        """Number of dimensions."""
        return len(self.strides)

    @property
    def arguments(self) -> dict[str, Any]:
        """The tensors, padding and data format, as arguments of a registration."""
        return {
            "inputs": self.inputs,
            "outputs": self.outputs,
            "padding": self.padding,
            "data_format": DATA_FORMATS[self.rank][self.channels_first],
        }

    def all_axes(self, entries: tuple[int, ...]) -> tuple[int, ...]:
        """Returns strides or dilations with entries for batch and channels added."""
        return (1, 1, *entries) if self.channels_first else (1, *entries, 1)


def match_convolution(tower: Tower, variable: Variable, use: Use) -> list[MatchRecord]:
    """Returns the layers that a `Conv2D` or `Conv3D` can be: without and with a bias."""
    convolution = _understood(tower, variable, use)
    if _channels(convolution, use) != static_size(variable, -2):
        raise NotRegistrableError(f"is in {use.op.name!r} with groups of channels")
    data = convolution.arguments
    if convolution.rank == 2:
        kind = RecordType.conv2d
        data |= {
            "strides": convolution.all_axes(convolution.strides),
            "dilations": convolution.all_axes(convolution.dilations),
        }
    else:
        kind = RecordType.convolution
        data |= {"strides": convolution.strides, "dilation_rate": convolution.dilations}
    found = find_bias(
        tower, convolution.outputs, static_size(variable, -1), convolution.channels_first
    )
    alone = tower.match(kind, variable, use, data, convolution.inputs, convolution.outputs)
    if found is None:
        return [alone]
    both = with_part(alone, found.bias, found.tensors, " with a bias", outputs=found.outputs)
    return [alone, both]


def match_depthwise(tower: Tower, variable: Variable, use: Use) -> list[MatchRecord]:
    """Returns the layer that a `DepthwiseConv2dNative` is: a depthwise convolution without bias."""
    convolution = _understood(tower, variable, use)
    _channels(convolution, use)
    if convolution.rank != 2:
        raise NotRegistrableError(
            f"is in {use.op.name!r}, a depthwise convolution in {convolution.rank} dimension(s)"
        )
    data = {
        **convolution.arguments,
        "strides": convolution.all_axes(convolution.strides),
        "rate": convolution.dilations,
    }
    seen = convolution.inputs, convolution.outputs
    return [tower.match(RecordType.depthwise_conv2d, variable, use, data, *seen)]


def _channels(convolution: _Convolution, use: Use) -> int:
    """Returns the number of channels of the images; raises NotRegistrableError if unknown."""
    axis = 1 if convolution.channels_first else -1
    images = convolution.inputs
    found: int | None = None if images.shape.rank is None else static_size(images, axis)
    if found is None:
        raise NotRegistrableError(f"is in {use.op.name!r}, on an unknown number of channels")
    return found


def _understood(tower: Tower, variable: Variable, use: Use) -> _Convolution:
    """Returns the convolution as it was before TensorFlow rewrote it."""
    op = use.op
    if use.position != 1 or tower.is_of_variables(op.inputs[0]):
        raise NotRegistrableError(f"is in {op.name!r}, which convolves parameters")
    padding = op.get_attr("padding").decode()
    if padding not in {"SAME", "VALID"}:
        raise NotRegistrableError(
            f"is in {op.name!r} with padding={padding!r}; use tf.pad and 'VALID'"
        )
    channels_first = op.get_attr("data_format").decode().startswith("NC")
    rank = use.value.shape.rank - 2
    first = 2 if channels_first else 1
    strides, dilations = (
        tuple(op.get_attr(name))[first : first + rank] for name in ("strides", "dilations")
    )
    whole = _Convolution(op.inputs[0], op.outputs[0], strides, dilations, padding, channels_first)
    if variable.shape.rank == rank + 1 == 3:
        whole = _in_one_dimension(tower, whole, use)
    elif variable.shape.as_list() != use.value.shape.as_list():
        raise NotRegistrableError(f"is reshaped for {op.name!r}")
    kernel = variable.shape.as_list()[: whole.rank]
    return _dilated(tower, whole, kernel, op.name)


def _in_one_dimension(tower: Tower, convolution: _Convolution, use: Use) -> _Convolution:
    """Removes the axis of size 1 that was inserted before the only dimension."""
    expanded, squeezed = convolution.inputs.op, tower.only_consumer(convolution.outputs)
    at = 2 if convolution.channels_first else 1
    is_expected = (
        static_size(use.value, 0) == 1
        and expanded.type == "ExpandDims"
        and tf.get_static_value(expanded.inputs[1]) in (at, at - 4)
        and squeezed is not None
        and squeezed.op.type == "Squeeze"
        and [axis % 4 for axis in squeezed.op.get_attr("squeeze_dims")] == [at]
    )
    if squeezed is None or not is_expected:
        raise NotRegistrableError(f"is reshaped for {use.op.name!r}")
    return convolution._replace(
        inputs=expanded.inputs[0],
        outputs=squeezed.op.outputs[0],
        strides=convolution.strides[1:],
        dilations=convolution.dilations[1:],
    )


def _dilated(tower: Tower, convolution: _Convolution, kernel: list[int], name: str) -> _Convolution:
    """Removes `SpaceToBatchND` and `BatchToSpaceND` around a convolution, if they are there."""
    before, after = convolution.inputs.op, tower.only_consumer(convolution.outputs)
    if before.type != "SpaceToBatchND":
        return convolution
    if after is None or after.op.type != "BatchToSpaceND":
        raise NotRegistrableError(f"convolves parts of an image in {name!r}")
    values = [tf.get_static_value(tensor) for tensor in (*before.inputs[1:], *after.op.inputs[1:])]
    if any(value is None for value in values):
        raise NotRegistrableError(
            f"is dilated in {name!r}, in images of unknown size; use tf.nn.conv2d with dilations, "
            "or give them a static shape"
        )
    block, paddings, block_after, crops = (value.tolist() for value in values)
    skipped = 1 if convolution.channels_first else 0
    dilations = (block[skipped:] + [1] * convolution.rank)[: convolution.rank]
    own = [
        (start, end - cropped)
        for (start, end), (_, cropped) in zip(paddings[skipped:], crops[skipped:], strict=True)
    ]
    own += [(0, 0)] * (convolution.rank - len(own))
    missing = [extent(k, d) - 1 for k, d in zip(kernel, dilations, strict=True)]
    same = [(total // 2, total - total // 2) for total in missing]
    is_undone = block == block_after and not any(start for start, _ in crops)
    steps = {1, *block[:skipped], *convolution.strides, *convolution.dilations}
    is_plain = steps == {1} and convolution.padding == "VALID"
    if not (is_undone and is_plain) or own not in (same, [(0, 0)] * convolution.rank):
        raise NotRegistrableError(f"is dilated in {name!r} with a padding of its own")
    return convolution._replace(
        inputs=before.inputs[0],
        outputs=after.op.outputs[0],
        dilations=tuple(dilations),
        padding="VALID" if own == [(0, 0)] * convolution.rank else "SAME",
    )
