"""Estimated time of matrix products on a CPU, to choose between two ways to compute them.

Owns the relative costs of multiplying, writing and starting a product.
"""

from typing import NamedTuple

WRITE_COST = 32.0
"""Cost of writing one number, in multiplications; measured on CPUs."""

PRODUCT_COST = 1e6
"""Cost of starting one more product of two matrices, in multiplications."""

ASSUMED_EXAMPLES = 64
"""Batch size in estimates if it is not static."""


class CostEstimate(NamedTuple):
    """The estimated cost of a computation.

    `multiplications` are those in products of matrices, `written` is the number of numbers that are
    written, and `products` that of products of matrices that are started.
    """

    multiplications: float = 0.0
    written: float = 0.0
    products: int = 0

    @property
    def cost(self) -> float:
        """Total cost, in multiplications."""
        return self.multiplications + self.written * WRITE_COST + self.products * PRODUCT_COST
