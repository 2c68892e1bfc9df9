"""One tower's share of a statistic: a sum over examples, and their number.

Called by the factors, which add the shares of all towers, and by what adds those of batches.
"""

from typing import NamedTuple

from kfac._types import Scalar, Tensor
from kfac.linalg import tensor_ops


class Moment(NamedTuple):
    """One tower's share of a statistic.

    Attributes:
      total: Sum over its examples, of the shape of the statistic.
      count: Number of summed rows or examples, an int or an int Tensor [].
    """

    total: Tensor
    count: Scalar


def moment_of_rows(rows: Tensor) -> Moment:
    """Returns XᵀX and r of rows X [r, n]."""
    return Moment(tensor_ops.outer_product(rows), tensor_ops.num_rows(rows))
