"""Rows of all towers, such as their predictions, joined in the order of the batch."""

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from replicate._types import Operation, Tensor
from replicate.graph_ops.checks import batch_check

v1 = tf.compat.v1


def join_rows(parts: Sequence[Tensor], key: Any, name: str) -> Tensor:
    """Concatenates the towers' tensors [rows of the tower, ...] along the first axis.

    A decoder stops at the longest row that it has got, which may be another one on each tower. Only
    the model knows what would stand in the rows that end earlier, so nothing is padded here.

    Args:
      parts: One tensor of each tower.
      key: Key of the tensors in the predictions, for errors.
      name: Name of the result.

    Raises:
      ValueError: The tensors are scalars, or their rows have different shapes. If the shapes are
        known only when the step runs, the step fails with the same text.
    """
    parts = [tf.convert_to_tensor(part) for part in parts]
    towers = f"the predictions {key!r} of {len(parts)} towers".replace("{}", "")
    if any(part.shape.rank == 0 for part in parts):
        raise ValueError(
            f"Cannot join {towers}: they are scalars. Predictions hold a row for each example: "
            "leave out what is a number of the whole batch."
        )
    text = (
        f"Cannot join {towers}: the shapes of their rows are {', '.join(['{}'] * len(parts))}. "
        "Each tower computes the length that its own part of the batch needs. Pad them in model_fn "
        "to a length that does not depend on the batch, such as tf.pad(ids, [[0, 0], [0, most - "
        "tf.shape(ids)[1]]], constant_values=end), or predict on one device."
    )
    with v1.control_dependencies(_checks(parts, text)):
        return tf.concat(parts, axis=0, name=name)


def _checks(parts: Sequence[Tensor], text: str) -> list[Operation]:
    """Checks that rows have one shape; returns operations that check what is not known before."""
    shapes = [part.shape[1:] for part in parts]
    if not all(shapes[0].is_compatible_with(shape) for shape in shapes[1:]):
        raise ValueError(text.format(*(shape.as_list() for shape in shapes)))
    if all(shape.is_fully_defined() for shape in shapes):
        return []
    known = [tf.shape(part)[1:] for part in parts]
    first, *others = (tf.strings.format("{}", shape, summarize=-1) for shape in known)
    is_same = tf.reduce_all([tf.equal(first, other) for other in others])
    return [batch_check(is_same, text, *known)]
