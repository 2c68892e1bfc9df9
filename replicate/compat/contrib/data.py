"""tf.contrib.data: transformations of datasets that tf.data has as methods."""

from collections.abc import Callable
from typing import Any

from replicate._types import Tensor

Transformation = Callable[[Any], Any]

__all__ = [
    "batch_and_drop_remainder",
    "padded_batch_and_drop_remainder",
]


def batch_and_drop_remainder(batch_size: Tensor) -> Transformation:
    """Makes batches of one size, for `dataset.apply`; a smaller last one is dropped."""
    return lambda dataset: dataset.batch(batch_size, drop_remainder=True)


def padded_batch_and_drop_remainder(
    batch_size: Tensor, padded_shapes: Any, padding_values: Any = None
) -> Transformation:
    """Makes padded batches of one size; a smaller last one is dropped.

    Args:
      batch_size: Number of elements of a batch.
      padded_shapes: Nest of the shapes after padding.
      padding_values: Nest of the values to pad with, None for zeros and empty strings.

    Returns:
      A function for `dataset.apply`.
    """
    return lambda dataset: dataset.padded_batch(
        batch_size, padded_shapes, padding_values, drop_remainder=True
    )
