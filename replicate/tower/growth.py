"""Growth of one tensor with the batch, and an output whose growth follows from its inputs'."""

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import NamedTuple, TypeAlias

import tensorflow as tf

from replicate._types import Tensor

Degree: TypeAlias = Fraction | int


class Growth(NamedTuple):
    """Dependence of a tensor on the number of times that the rows of the batch are repeated.

    Attributes:
      degree: Exponent of that number in the tensor's values.
      axis: Axis of the rows, counted from the end, so below 0. None: there is none.
      constants: Tensors that were added to it, and do not depend on the batch.
      sizes: The degree of each entry, if the tensor is a vector of sizes; else empty.
      is_located: False if the tensor may have rows on an axis that is not known.
    """

    degree: Degree = 0
    axis: int | None = None
    constants: tuple[Tensor, ...] = ()
    sizes: tuple[Degree, ...] = ()
    is_located: bool = True


CONSTANT = Growth()
LOST = Growth(is_located=False)


class Output(NamedTuple):
    """An output of an operation, in a tower.

    Attributes:
      tensor: The output.
      rows: Rows of the tower's part of the batch; None if that is not known.
    """

    tensor: Tensor
    rows: int | None

    def located(self, degree: Degree) -> Growth | None:
        """Returns the growth if the rows are found by the shape."""
        if self.tensor.dtype == tf.variant:
            return LOST
        shape = self.tensor.shape
        if shape.rank is None:
            return LOST if degree == 0 else None
        if shape.rank == 0:
            return None
        dimensions = shape.as_list()
        wanted = None if None in dimensions else self.rows
        axes = [axis for axis, size in enumerate(dimensions) if size == wanted]
        if wanted is None and None not in dimensions:
            return None
        if len(axes) == 1:
            return Growth(degree, axes[0] - shape.rank)
        return LOST if axes and degree == 0 else None

    def of_network(self, inputs: Sequence[Growth]) -> Growth | None:
        """Returns the growth of an operation without a rule, which maps rows to rows."""
        if any(each.degree != 0 or any(each.sizes) for each in inputs):
            return None
        return self.located(0)


Rule: TypeAlias = Callable[[Output, Sequence[Growth]], Growth | None]
"""Function of an output and the growth of each input; None if the graph does not tell."""
