"""scipy.misc: images as arrays, read, written and resized by Pillow."""

import importlib
import importlib.util
from typing import Any

import numpy as np

_FILTERS = {
    "nearest": "NEAREST",
    "lanczos": "LANCZOS",
    "bilinear": "BILINEAR",
    "bicubic": "BICUBIC",
    "cubic": "BICUBIC",
}


def _pillow() -> Any:
    """Returns Pillow's module Image.

    Raises:
      ModuleNotFoundError: It is not installed.
    """
    if importlib.util.find_spec("PIL") is None:
        raise ModuleNotFoundError(
            "scipy.misc needs Pillow for images: pip install pillow.", name="PIL"
        )
    return importlib.import_module("PIL.Image")


def imread(name: Any, flatten: bool = False, mode: str | None = None) -> Any:
    """Reads an image.

    Args:
      name: Path, or an open file.
      flatten: True for one channel, float32.
      mode: Mode of Pillow to convert it to, such as "RGB" or "L".

    Returns:
      [rows, columns] or [rows, columns, channels], uint8 but for modes of other types.
    """
    with _pillow().open(name) as image:
        return fromimage(image, flatten, mode)


def fromimage(im: Any, flatten: bool = False, mode: str | None = None) -> Any:
    """Returns an image of Pillow as an array; arguments and result are those of `imread`."""
    if mode is not None and mode != im.mode:
        im = im.convert(mode)
    elif im.mode == "P":
        im = im.convert("RGBA" if "transparency" in im.info else "RGB")
    if flatten:
        im = im.convert("F")
    elif im.mode == "1":
        im = im.convert("L")
    return np.array(im)


def bytescale(
    data: Any,
    cmin: float | None = None,
    cmax: float | None = None,
    high: int = 255,
    low: int = 0,
) -> Any:
    """Scales numbers to bytes: cmin becomes low, cmax high. Bytes stay.

    Args:
      data: An array.
      cmin: Smallest number, that of the data by default.
      cmax: Largest number, that of the data by default.
      high: Largest byte.
      low: Smallest byte.

    Raises:
      ValueError: A bound is below the other, or is no byte.
    """
    data = np.asarray(data)
    if data.dtype == np.uint8:
        return data
    if not 0 <= low <= high <= 255:
        raise ValueError(f"bytescale needs 0 <= low <= high <= 255, got {low} and {high}.")
    first = data.min() if cmin is None else cmin
    last = data.max() if cmax is None else cmax
    if last < first:
        raise ValueError(f"bytescale needs cmin <= cmax, got {first} and {last}.")
    width = float(last - first) or 1.0
    scaled = (data - float(first)) * (high - low) / width + low
    return (np.clip(scaled, low, high) + 0.5).astype("u1")


def toimage(
    arr: Any,
    high: int = 255,
    low: int = 0,
    cmin: float | None = None,
    cmax: float | None = None,
    pal: Any = None,
    mode: str | None = None,
    channel_axis: int | None = None,
) -> Any:
    """Returns an array as an image of Pillow, scaled to bytes as by `bytescale`.

    Args:
      arr: [rows, columns], or with an axis of 3 or 4 channels.
      high: As for `bytescale`.
      low: As for `bytescale`.
      cmin: As for `bytescale`.
      cmax: As for `bytescale`.
      pal: Palette of an image of mode "P", [256, 3].
      mode: Mode of the image; "F" and "I" are not scaled.
      channel_axis: Axis of the channels, the last that has 3 or 4 by default.

    Raises:
      ValueError: The shape is no image's.
    """
    data = np.asarray(arr)
    image = _pillow()
    if data.ndim == 2 and mode in ("F", "I"):
        return image.fromarray(data.astype("f4" if mode == "F" else "i4"))
    axes = [axis for axis in range(data.ndim) if data.shape[axis] in (3, 4)]
    if data.ndim not in (2, 3) or (data.ndim == 3 and not axes):
        raise ValueError(f"An image is [rows, columns(, 3 or 4 channels)], got {data.shape}.")
    scaled = bytescale(data, cmin, cmax, high, low)
    if data.ndim == 2:
        made = image.fromarray(scaled)
        if mode == "P" or pal is not None:
            colors = np.arange(256)[:, None] + np.zeros(3) if pal is None else np.asarray(pal)
            made.putpalette(colors.astype("u1").tobytes())
        return made.convert("1") if mode == "1" else made
    axis = channel_axis
    if axis is None:
        axis = 2 if 2 in axes else axes[0]
    made = image.fromarray(np.ascontiguousarray(np.moveaxis(scaled, axis, 2)))
    return made if mode in (None, made.mode) else made.convert(mode)


def imsave(name: Any, arr: Any, format: str | None = None) -> None:  # noqa: A002
    """Writes an array as an image, scaled to bytes as by `bytescale`."""
    is_colored = np.ndim(arr) == 3
    toimage(arr, channel_axis=2 if is_colored else None).save(name, format)


def imresize(arr: Any, size: Any, interp: str = "bilinear", mode: str | None = None) -> Any:
    """Resizes an image.

    Args:
      arr: As for `toimage`.
      size: Percent as an int, a factor as a float, or (rows, columns).
      interp: "nearest", "lanczos", "bilinear", "bicubic" or "cubic".
      mode: Mode of Pillow to convert the array to before.

    Returns:
      The image, uint8.

    Raises:
      ValueError: interp is another one.
    """
    if interp not in _FILTERS:
        raise ValueError(f"interp must be one of {sorted(_FILTERS)}, got {interp!r}.")
    image = toimage(arr, mode=mode)
    if np.ndim(size):
        new = (int(size[1]), int(size[0]))
    else:
        factor = size / 100.0 if np.issubdtype(type(size), np.signedinteger) else size
        new = (int(image.size[0] * factor), int(image.size[1] * factor))
    return fromimage(image.resize(new, getattr(_pillow(), _FILTERS[interp])))


def imrotate(arr: Any, angle: float, interp: str = "bilinear") -> Any:
    """Rotates an image counter-clockwise by degrees; arguments as for `imresize`."""
    if interp not in _FILTERS:
        raise ValueError(f"interp must be one of {sorted(_FILTERS)}, got {interp!r}.")
    return fromimage(toimage(arr).rotate(angle, getattr(_pillow(), _FILTERS[interp])))
