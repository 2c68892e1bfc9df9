"""Products of a block-diagonal matrix with vectors that belong to variables.

Sorts vectors into blocks and back, and checks that a product is one of those that are kept up to
date. The blocks multiply. Used by the Fisher estimator.
"""

import typing
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from kfac._types import Variable
from kfac.fisher_blocks.base import FisherBlock, as_tuple
from kfac.linalg.vectors import choose, scale

v1 = tf.compat.v1

VectorsAndVariables = Sequence[tuple[Any, Variable]]
"""(vector, variable) for every registered variable, a vector being shaped as its variable."""


def multiply_blocks(
    blocks: Sequence[FisherBlock],
    devices: Sequence[str],
    vecs_and_vars: VectorsAndVariables,
    multiply: Callable[[FisherBlock, Any], Any],
) -> list[tuple[Any, Variable]]:
    """Multiplies each block with the vectors of its parameters.

    Args:
      blocks: The blocks.
      devices: Where to multiply with each of them.
      vecs_and_vars: A vector for each parameter of each block: a Tensor, or IndexedSlices where
        the block takes them.
      multiply: Multiplies a block with what is structured as its parameters.

    Returns:
      (product, variable) in the order of `vecs_and_vars`.

    Raises:
      ValueError: A parameter has no vector.
    """
    vectors = {variable.ref(): vector for vector, variable in vecs_and_vars}
    params = [param for block in blocks for param in as_tuple(block.params)]
    missing = [param.op.name for param in params if param.ref() not in vectors]
    if missing:
        raise ValueError(
            f"Cannot multiply with curvature: there are no vectors for {', '.join(missing)}. Pass "
            "(vector, variable) for every registered variable."
        )
    products: dict[Any, Any] = {}
    for block, device in zip(blocks, devices, strict=True):
        refs = [param.ref() for param in as_tuple(block.params)]
        of_block = tuple(vectors[ref] for ref in refs)
        with v1.device(device):
            if isinstance(block.params, (tuple, list)):
                found = multiply(block, of_block)
            else:
                found = (multiply(block, of_block[0]),)
        products.update(zip(refs, found, strict=True))
    return [(products[variable.ref()], variable) for _, variable in vecs_and_vars]


def _power(block: FisherBlock, vector: Any, exponent: int) -> Any:
    return block.multiply_inverse(vector) if exponent == -1 else block.multiply(vector)


def _power_from_identity(block: FisherBlock, vector: Any, exponent: int) -> Any:
    """Multiplies by a power of a block, or if it has no inverse, of a damped identity matrix."""
    has_inverse, eigenvalue = block.has_inverse(), block.identity_eigenvalue()
    scaled = scale(eigenvalue**exponent, as_tuple(vector))
    products = as_tuple(_power(block, vector, exponent))
    chosen = tuple(choose(has_inverse, *pair) for pair in zip(products, scaled, strict=True))
    return chosen if isinstance(vector, tuple) else chosen[0]


class BlocksOnDevices(NamedTuple):
    """The blocks of a matrix, ready to multiply.

    Attributes:
      blocks: The blocks.
      devices: Device of the products with each of them.
    """

    blocks: Sequence[FisherBlock]
    devices: Sequence[str]


@typing.final
class BlockProducts:
    """Products with the damped block-diagonal matrix M, and with its Cholesky factor L.

    L has a block for each block of M, which times its transpose is that block. For a Kronecker
    product it is the product of the two lower triangular factors.
    """

    def __init__(
        self,
        name: str,
        prepare: Callable[[], BlocksOnDevices],
        exps: Sequence[float],
        compute_cholesky: bool,
        compute_cholesky_inverse: bool,
    ) -> None:
        """Keeps its arguments.

        Args:
          name: Name of the estimator, for messages.
          prepare: Makes the blocks ready to multiply, and returns them; called for each product.
          exps: Powers of M that `multiply_matpower` is to serve, beside 1.
          compute_cholesky: Whether `multiply_cholesky` is to be served.
          compute_cholesky_inverse: Whether `multiply_cholesky_inverse` is to be served.
        """
        self._name = name
        self._prepare = prepare
        self._exps = tuple(exps)
        self._compute_cholesky = compute_cholesky
        self._compute_cholesky_inverse = compute_cholesky_inverse

    def register(self, block: FisherBlock) -> None:
        """Asks a block for all that is to be served."""
        for exponent in self._exps:
            block.register_matpower(exponent)
        if self._compute_cholesky:
            block.register_cholesky()
        if self._compute_cholesky_inverse:
            block.register_cholesky_inverse()

    def multiply(
        self, vecs_and_vars: VectorsAndVariables, from_identity: bool = False
    ) -> list[tuple[Any, Variable]]:
        """Multiplies vectors by M, with the averages as they are.

        Args:
          vecs_and_vars: (vector, variable) for every registered variable, shaped alike.
          from_identity: Whether a block whose inverse was not computed yet is made of identity
            matrices, which are damped like its factors.

        Returns:
          (product, variable) in the same order.

        Raises:
          ValueError: A registered variable has no vector; the same holds for all products.
        """
        multiply = _power_from_identity if from_identity else _power
        return self._multiply(vecs_and_vars, lambda block, v: multiply(block, v, 1))

    def multiply_inverse(
        self, vecs_and_vars: VectorsAndVariables, from_identity: bool = False
    ) -> list[tuple[Any, Variable]]:
        """Multiplies vectors by M⁻¹, with the inverses as they are; see `multiply`.

        Without `from_identity` the product with an inverse that was not computed yet is zero.
        """
        self._check_served(-1 in self._exps, "multiply_inverse", "-1 in exps")
        multiply = _power_from_identity if from_identity else _power
        return self._multiply(vecs_and_vars, lambda block, v: multiply(block, v, -1))

    def multiply_matpower(
        self, exp: float, vecs_and_vars: VectorsAndVariables
    ) -> list[tuple[Any, Variable]]:
        """Multiplies vectors by M to the power `exp`; see `multiply`.

        Args:
          exp: One of the constructor's `exps`, or 1.
          vecs_and_vars: As in `multiply`.

        Raises:
          ValueError: The power is another one.
        """
        served = exp == 1 or exp in self._exps
        self._check_served(served, f"multiply_matpower({exp!r})", f"{exp!r} in exps")
        return self._multiply(vecs_and_vars, lambda block, v: block.multiply_matpower(v, exp))

    def multiply_cholesky(
        self, vecs_and_vars: VectorsAndVariables, transpose: bool = False
    ) -> list[tuple[Any, Variable]]:
        """Multiplies vectors by L, or by Lᵀ; see `multiply`.

        Args:
          vecs_and_vars: As in `multiply`.
          transpose: Whether to multiply by the transpose.

        Raises:
          ValueError: The estimator was made without compute_cholesky=True.
        """
        self._check_served(self._compute_cholesky, "multiply_cholesky", "compute_cholesky=True")
        return self._multiply(
            vecs_and_vars, lambda block, v: block.multiply_cholesky(v, transpose=transpose)
        )

    def multiply_cholesky_inverse(
        self, vecs_and_vars: VectorsAndVariables, transpose: bool = False
    ) -> list[tuple[Any, Variable]]:
        """Multiplies vectors by L⁻¹, or by its transpose; see `multiply`.

        Args:
          vecs_and_vars: As in `multiply`.
          transpose: Whether to multiply by the transpose.

        Raises:
          ValueError: The estimator was made without compute_cholesky_inverse=True.
        """
        self._check_served(
            self._compute_cholesky_inverse,
            "multiply_cholesky_inverse",
            "compute_cholesky_inverse=True",
        )
        return self._multiply(
            vecs_and_vars, lambda block, v: block.multiply_cholesky_inverse(v, transpose=transpose)
        )

    def _check_served(self, served: bool, call: str, needed: str) -> None:
        if not served:
            raise ValueError(
                f"{self._name} does not serve {call}: it was made with exps={self._exps}, "
                f"compute_cholesky={self._compute_cholesky}, "
                f"compute_cholesky_inverse={self._compute_cholesky_inverse}. Make it with {needed}."
            )

    def _multiply(
        self, vecs_and_vars: VectorsAndVariables, multiply: Callable[[FisherBlock, Any], Any]
    ) -> list[tuple[Any, Variable]]:
        return multiply_blocks(*self._prepare(), vecs_and_vars, multiply)
