"""States of cells: nests of tensors [batch, …], told by nests of their sizes."""

import collections
from typing import Any

import tensorflow as tf

from replicate._types import Tensor


class LSTMStateTuple(collections.namedtuple("LSTMStateTuple", ("c", "h"))):
    """State of an LSTM cell.

    Attributes:
      c: The cell, [batch, units].
      h: Its output, [batch, units] or [batch, num_proj].
    """

    __slots__ = ()

    @property
    def dtype(self) -> Any:
        """Type of both tensors.

        Raises:
          TypeError: They have different types.
        """
        if self.c.dtype != self.h.dtype:
            raise TypeError(
                f"An LSTMStateTuple has one dtype, but c is {self.c.dtype} and h {self.h.dtype}."
            )
        return self.c.dtype


def zeros(sizes: Any, batch_size: Any, dtype: Any) -> Any:
    """Returns a state of zeros.

    Args:
      sizes: Nest of sizes, each a number or a shape without the batch.
      batch_size: A number or a scalar tensor.
      dtype: Type of the tensors.
    """

    def of_size(size: Any) -> Tensor:
        return tf.zeros([batch_size, *tf.TensorShape(size).as_list()], dtype)

    return tf.nest.map_structure(of_size, sizes)


def total(sizes: Any) -> int:
    """Returns the sum of the sizes of a nest of numbers and vectors' shapes."""
    return sum(int(tf.TensorShape(size).num_elements()) for size in tf.nest.flatten(sizes))
