"""Conditions on the inputs of a layer: type, rank and sizes of axes."""

from collections.abc import Iterable, Mapping
from typing import Any

import tensorflow as tf


class InputSpec:
    """Conditions that one input of a layer must meet. What is None is free.

    Attributes:
      dtype: Type of the values.
      shape: Shape; sizes in it that are None are free.
      ndim: Rank.
      max_ndim: Largest rank.
      min_ndim: Smallest rank.
      axes: Sizes of axes by their numbers, negative ones from the end.
      allow_last_axis_squeeze: True if a last axis of size 1 may be left out or added.
      name: Name of the input.
      optional: True if the input may be left out.
    """

    def __init__(
        self,
        dtype: Any = None,
        shape: Any = None,
        ndim: int | None = None,
        max_ndim: int | None = None,
        min_ndim: int | None = None,
        axes: Mapping[int, int | None] | None = None,
        allow_last_axis_squeeze: bool = False,
        name: str | None = None,
        optional: bool = False,
    ) -> None:
        self.dtype = None if dtype is None else tf.as_dtype(dtype).name
        self.shape = None if shape is None else tuple(tf.TensorShape(shape).as_list())
        self.ndim = ndim if self.shape is None else len(self.shape)
        self.max_ndim = max_ndim
        self.min_ndim = min_ndim
        self.axes = {} if axes is None else {int(axis): size for axis, size in axes.items()}
        self.allow_last_axis_squeeze = allow_last_axis_squeeze
        self.name = name
        self.optional = optional

    def __repr__(self) -> str:
        given = {name: value for name, value in vars(self).items() if value not in (None, {})}
        return f"InputSpec({', '.join(f'{name}={value!r}' for name, value in given.items())})"


def check_inputs(layer: str, specs: Any, inputs: Any) -> None:
    """Checks the inputs of a layer.

    Args:
      layer: Name of the layer, for the error.
      specs: One `InputSpec` or None, or a list of them for a list of inputs.
      inputs: One Tensor, or a nest of them.

    Raises:
      ValueError: An input does not meet its conditions, or there are not as many inputs as specs.
    """
    if specs is None:
        return
    each_spec = specs if isinstance(specs, list | tuple) else [specs]
    each_input = tf.nest.flatten(inputs)
    if len(each_spec) != len(each_input):
        raise ValueError(
            f"Layer {layer} takes {len(each_spec)} inputs and got {len(each_input)}: {inputs!r}."
        )
    for number, (spec, value) in enumerate(zip(each_spec, each_input, strict=True)):
        if spec is None or not hasattr(value, "shape"):
            continue
        for expected, found in _failures(spec, value):
            raise ValueError(
                f"Input {number} of layer {layer} is incompatible with the layer: expected "
                f"{expected}, found {found}. Its shape is {value.shape}."
            )


def _failures(spec: InputSpec, value: Any) -> Iterable[tuple[str, str]]:
    """Yields pairs of what is expected and what was found."""
    rank = value.shape.rank
    if spec.dtype is not None and value.dtype.base_dtype.name != spec.dtype:
        yield f"dtype={spec.dtype}", f"dtype={value.dtype.base_dtype.name}"
    if rank is None:
        return
    if spec.ndim is not None and rank != spec.ndim and not _is_squeezed(spec, value.shape):
        yield f"ndim={spec.ndim}", f"ndim={rank}"
    elif spec.max_ndim is not None and rank > spec.max_ndim:
        yield f"max_ndim={spec.max_ndim}", f"ndim={rank}"
    elif spec.min_ndim is not None and rank < spec.min_ndim:
        yield f"min_ndim={spec.min_ndim}", f"ndim={rank}"
    else:
        yield from _wrong_sizes(spec, value.shape.as_list())


def _is_squeezed(spec: InputSpec, shape: Any) -> bool:
    if not spec.allow_last_axis_squeeze or not spec.shape:
        return False
    sizes = shape.as_list()
    return (len(sizes) == len(spec.shape) + 1 and sizes[-1] == 1) or (
        len(sizes) + 1 == len(spec.shape) and spec.shape[-1] == 1
    )


def _wrong_sizes(spec: InputSpec, sizes: list[int | None]) -> Iterable[tuple[str, str]]:
    wanted = dict(enumerate(spec.shape or ())) if spec.ndim == len(sizes) else {}
    for axis, size in [*wanted.items(), *spec.axes.items()]:
        found = sizes[axis] if -len(sizes) <= axis < len(sizes) else None
        if None not in (size, found) and size != found:
            yield f"axis {axis} of size {size}", f"size {found}"
