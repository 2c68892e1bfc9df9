"""Sizes, formats and paddings of layers that slide a window over their inputs."""

from collections.abc import Sequence
from typing import Any

CHANNELS_FIRST = "channels_first"
CHANNELS_LAST = "channels_last"
_FIRST = {1: "NCW", 2: "NCHW", 3: "NCDHW"}
_LAST = {1: "NWC", 2: "NHWC", 3: "NDHWC"}


def as_tuple(value: Any, rank: int, name: str) -> tuple[int, ...]:
    """Returns one integer for each spatial axis.

    Raises:
      ValueError: The value is neither an integer nor a sequence of `rank` integers.
    """
    try:
        found = tuple(int(each) for each in value) if _is_sequence(value) else (int(value),) * rank
    except (TypeError, ValueError):
        found = ()
    if len(found) != rank:
        integers = "an integer" if rank == 1 else f"an integer or a tuple of {rank} integers"
        raise ValueError(f"{name} must be {integers}, got {value!r}.")
    return found


def _is_sequence(value: Any) -> bool:
    return hasattr(value, "__len__") and not isinstance(value, str)


def checked_data_format(value: Any) -> str:
    """Returns a data format in lower case; raises ValueError for another text."""
    found = str(value).lower()
    if found not in (CHANNELS_FIRST, CHANNELS_LAST):
        raise ValueError(
            f"data_format must be {CHANNELS_FIRST!r} or {CHANNELS_LAST!r}, got {value!r}."
        )
    return found


def checked_padding(value: Any, may_be_causal: bool = False) -> str:
    """Returns a padding in lower case; raises ValueError for another text."""
    found = str(value).lower()
    allowed = ("valid", "same", "causal") if may_be_causal else ("valid", "same")
    if found not in allowed:
        raise ValueError(f"padding must be one of {', '.join(allowed)}, got {value!r}.")
    return found


def format_of_tensorflow(data_format: str, rank: int) -> str:
    """Returns TensorFlow's name of a data format, such as "NHWC"."""
    return (_FIRST if data_format == CHANNELS_FIRST else _LAST)[rank]


def channel_axis(data_format: str) -> int:
    """Returns the axis of the channels: 1 or -1."""
    return 1 if data_format == CHANNELS_FIRST else -1


def spatial_sizes(sizes: Sequence[Any], data_format: str) -> list[Any]:
    """Returns the sizes of the spatial axes of a shape."""
    return list(sizes[2:] if data_format == CHANNELS_FIRST else sizes[1:-1])


def with_channels(batch: Any, spatial: Sequence[Any], channels: Any, data_format: str) -> list[Any]:
    """Returns a shape of batch, spatial axes and channels."""
    if data_format == CHANNELS_FIRST:
        return [batch, channels, *spatial]
    return [batch, *spatial, channels]


def output_size(
    size: int | None, window: int, padding: str, stride: int, dilation: int = 1
) -> int | None:
    """Returns the number of places of a window on an axis, None if the size is not known."""
    if size is None:
        return None
    reach = (window - 1) * dilation if padding == "valid" else 0
    return -(-(size - reach) // stride)


def transposed_size(size: Any, window: int, padding: str, stride: int) -> Any:
    """Returns the size that a transposed convolution makes of one, a number or a Tensor."""
    if size is None:
        return None
    grown = size * stride
    return grown + max(window - stride, 0) if padding == "valid" else grown
