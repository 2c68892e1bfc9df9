"""An estimate of how long numerical work takes on a CPU, to choose between two ways to do it.

Owns what the kinds of work cost beside each other. Called where there are several ways.
"""

from typing import NamedTuple

WRITE_COST = 32.0
"""What it costs to write one number, in multiplications; measured on CPUs."""

PRODUCT_COST = 1e6
"""What it costs to start one more product of two matrices, in multiplications."""

ASSUMED_EXAMPLES = 64
"""Batch size for estimates where it is not static."""


class Work(NamedTuple):
    """Some work.

    Attributes:
      multiplications: In products of matrices.
      written: How many numbers are written.
      products: How many products of matrices are started.
    """

    multiplications: float = 0.0
    written: float = 0.0
    products: int = 0

    @property
    def cost(self) -> float:
        """All of it, in multiplications."""
        return self.multiplications + self.written * WRITE_COST + self.products * PRODUCT_COST
