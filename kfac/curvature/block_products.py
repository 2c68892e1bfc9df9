"""Products of a block-diagonal matrix with vectors, split by variables.

Sorts vectors into blocks and back, replaces products with blocks that have no inverse yet, and
holds the functions whose products are kept up to date. The blocks multiply. Used by the Fisher
estimator.
"""

import dataclasses
from collections.abc import Sequence
from typing import Any, NamedTuple

from kfac._types import Tensor, Variable
from kfac.fisher_blocks.base import FisherBlock, as_tuple
from kfac.linalg.damped_functions import (
    ITSELF,
    Cholesky,
    CholeskyInverse,
    MatrixFunction,
    Power,
)
from kfac.linalg.vectors import choose, scale
from kfac.variables import name_of

VectorsAndVariables = Sequence[tuple[Any, Variable]]
"""(vector, variable) for every registered variable, a vector being shaped as its variable."""


def split_into_blocks(
    blocks: Sequence[FisherBlock], vecs_and_vars: VectorsAndVariables
) -> list[Any]:
    """Returns the vectors of each block, structured as the block's parameters.

    A vector is a Tensor, or IndexedSlices if the block accepts them.

    Raises:
      ValueError: A parameter has no vector.
    """
    vectors = {variable.ref(): vector for vector, variable in vecs_and_vars}
    params = [param for block in blocks for param in as_tuple(block.params)]
    missing = [name_of(param) for param in params if param.ref() not in vectors]
    if missing:
        raise ValueError(
            f"Cannot multiply with curvature: there are no vectors for {', '.join(missing)}. Pass "
            "(vector, variable) for every registered variable."
        )
    found = []
    for block in blocks:
        of_block = tuple(vectors[param.ref()] for param in as_tuple(block.params))
        found.append(of_block if isinstance(block.params, (tuple, list)) else of_block[0])
    return found


def join_blocks(
    blocks: Sequence[FisherBlock], products: Sequence[Any], variables: Sequence[Variable]
) -> list[tuple[Any, Variable]]:
    """Undoes `split_into_blocks`; returns (product, variable) in the order of `variables`."""
    found: dict[Any, Any] = {}
    for block, product in zip(blocks, products, strict=True):
        refs = [param.ref() for param in as_tuple(block.params)]
        found.update(zip(refs, as_tuple(product), strict=True))
    return [(found[variable.ref()], variable) for variable in variables]


class IdentityProduct(NamedTuple):
    """The product with a function of a damped identity matrix, in place of a block without inverse.

    `has_inverse`, bool [], is true if the block has its inverse. There is one part per parameter.
    """

    has_inverse: Tensor
    parts: tuple[Any, ...]

    def unless_computed(self, product: Any) -> Any:
        """Returns `product` if the block has its inverse, else the product with the identity."""
        pairs = zip(as_tuple(product), self.parts, strict=True)
        chosen = tuple(choose(self.has_inverse, *pair) for pair in pairs)
        return chosen if isinstance(product, tuple) else chosen[0]


def identity_product(block: FisherBlock, function: MatrixFunction, vector: Any) -> IdentityProduct:
    """Multiplies by a function of a block whose factors are identity matrices.

    The block defines their damping. The vector is structured as its parameters.
    """
    has_inverse, eigenvalue = block.has_inverse(), block.identity_eigenvalue()
    parts = scale(eigenvalue**function.degree, as_tuple(vector))
    return IdentityProduct(has_inverse, tuple(parts))


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
