"""Products with the blocks of a block-diagonal matrix.

Replaces products with blocks that have no inverse yet, and holds the functions whose products are
kept up to date. The blocks multiply. Used by the Fisher estimator.
"""

import dataclasses
import functools
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from kfac._types import Variable
from kfac.fisher_blocks.base import FisherBlock
from kfac.linalg.damped_functions import ITSELF, Cholesky, CholeskyInverse, MatrixFunction, Power
from kfac.linalg.vectors import choose, scale
from kfac.state import either, is_in_function

VectorsAndVariables = Sequence[tuple[Any, Variable]]
"""(vector, variable) for every registered variable, a vector being shaped as its variable."""


def product_or_identity(
    block: FisherBlock, function: MatrixFunction, vector: Any, transpose: bool = False
) -> Any:
    """Returns a product with a block, or with damped identity matrices before it has its inverse.

    The block defines the damping of the identity matrices. The vector is structured as the block's
    parameters.
    """
    product = block.product_or_identity(function, vector, transpose)
    if product is not None:
        return product
    multiply = functools.partial(block.multiply_function, function, vector, transpose)
    factor = block.identity_eigenvalue() ** function.degree
    given = tf.nest.flatten(vector)
    has_inverse = block.has_inverse()
    is_costly = any(each.inverses for each in block.factors)
    is_sparse = any(isinstance(part, tf.IndexedSlices) for part in given)
    if is_costly and not is_sparse and not is_in_function():
        known, unknown = lambda: tf.nest.flatten(multiply()), lambda: scale(factor, given)
        parts = either(has_inverse, known, unknown)
    else:
        pairs = zip(tf.nest.flatten(multiply()), scale(factor, given), strict=True)
        parts = [choose(has_inverse, *pair) for pair in pairs]
    return tuple(parts) if block.has_bias else parts[0]


@dataclasses.dataclass(frozen=True)
class ServedFunctions:
    """Functions of the damped matrix whose products are available, besides the matrix itself.

    `exps` are exponents of powers; the flags are for the Cholesky factor and its inverse.
    """

    exps: tuple[float, ...]
    compute_cholesky: bool
    compute_cholesky_inverse: bool
    further: tuple[MatrixFunction, ...]

    @property
    def all(self) -> tuple[MatrixFunction, ...]:
        """The functions, in the order in which factors keep them."""
        cholesky = [Cholesky()] if self.compute_cholesky else []
        inverse = [CholeskyInverse()] if self.compute_cholesky_inverse else []
        return *map(Power, self.exps), *cholesky, *inverse, *self.further

    def check(self, function: MatrixFunction, estimator: str) -> None:
        """Checks that products with a function are available; the error names the estimator.

        Raises:
          ValueError: They are not. The message says how the estimator was made, and how to make it.
        """
        if function == ITSELF or function in self.all:
            return
        needed = f"{function!r} in functions"
        if isinstance(function, Power):
            needed = f"{function.exponent!r} in exps"
        elif isinstance(function, (Cholesky, CholeskyInverse)):
            needed = f"compute_{function.name}=True"
        raise ValueError(
            f"{estimator} does not serve products with the {function}: it was made with "
            f"exps={self.exps}, compute_cholesky={self.compute_cholesky}, "
            f"compute_cholesky_inverse={self.compute_cholesky_inverse}, functions={self.further}. "
            f"Make it with {needed}."
        )
