"""Formats for the tensors of layers that are applied several times to an example.

The uses of a layer, such as the steps of a recurrent network, come as a list with one tensor
[N, ...] per use, as one tensor [uses, N, ...], or as one tensor [uses · N, ...] in which all
examples of the first use come first. A list may also have tensors of several uses. Called by layer
registration and factors.
"""

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from kfac._types import Tensor
from kfac.linalg.tensor_ops import static_size


def as_uses(tensors: Any, example_axes: int) -> Any:
    """Returns tensors in a format of blocks: a tuple over uses, (stacked,), or [uses · N, ...].

    An example has `example_axes` axes: 1 for vectors, 3 for images. Tensors may have more axes of
    uses or examples.
    """
    if isinstance(tensors, (tuple, list)):
        return tuple(tensors)
    return tensors if (tensors.shape.rank or 0) < example_axes + 2 else (tensors,)


def fold_uses(tensors: Any, example_axes: int) -> Tensor:
    """Returns the tensor [uses · N, ...], use after use, of tensors in a format of `as_uses`."""
    if not isinstance(tensors, tuple):
        return tensors
    return tf.concat([_flattened(tensor, example_axes) for tensor in tensors], axis=0)


def _flattened(tensor: Tensor, example_axes: int) -> Tensor:
    if (tensor.shape.rank or 0) < example_axes + 2:
        return tensor
    sizes = tensor.shape.as_list()[-example_axes:]
    if None not in sizes:
        return tf.reshape(tensor, [-1, *sizes])
    return tf.reshape(tensor, tf.concat([[-1], tf.shape(tensor)[-example_axes:]], axis=0))


def count_uses(tensors: Any, num_uses: int | None, example_axes: int, layer: str) -> int:
    """Returns the number of times that a layer is applied to an example.

    `tensors` are the layer's inputs or outputs, in any of the formats. The `num_uses` given at
    registration may be None.

    Raises:
      ValueError: The number is neither given nor visible in the tensors, or the two differ.
    """
    if isinstance(tensors, (tuple, list)):
        is_folded = num_uses is not None and _are_folded(tensors, num_uses, example_axes)
        seen: int | None = num_uses if is_folded else len(tensors)
    elif tensors.shape.rank == example_axes + 2:
        seen = static_size(tensors, 0)
    else:
        seen = None
    if num_uses is None:
        num_uses = seen
    if num_uses is None or (seen is not None and seen != num_uses):
        raise ValueError(
            f"Cannot register layer {layer!r}: num_uses={num_uses!r}, and its tensors tell "
            f"{seen!r}. Give lists with one tensor per use, one tensor [uses, batch, ...], or "
            "one tensor [uses * batch, ...] and num_uses; or lists of such tensors of static "
            "shape and num_uses, the sum of their uses."
        )
    return num_uses


def _are_folded(tensors: Sequence[Tensor], num_uses: int, example_axes: int) -> bool:
    """Returns True if tensors of static shape have `num_uses` uses in all, each at least one."""
    if num_uses <= len(tensors) or not all(tf.is_tensor(t) and t.shape.rank for t in tensors):
        return False
    leading = [tensor.shape[: max(1, tensor.shape.rank - example_axes)] for tensor in tensors]
    rows = [sizes.num_elements() for sizes in leading]
    if None in rows or sum(rows) % num_uses:
        return False
    examples = sum(rows) // num_uses
    return examples > 0 and all(of_tensor % examples == 0 for of_tensor in rows)
