"""Gradients multiplied by the inverse curvature, and the check that they fit the curvature.

Turns gradients into vectors, multiplies them by the blocks of a Fisher estimator, and turns the
products into vectors again. Called by the step.
"""

import typing
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from kfac._types import GradsAndVars, Variable
from kfac.estimator import FisherEstimator
from kfac.fisher_blocks.base import as_tuple
from kfac.fisher_blocks.two_factor import KroneckerBlock
from kfac.fisher_factors.matrix import DiagonalFactor
from kfac.layer_collection import LayerCollection
from kfac.linalg.damped_functions import INVERSE, ITSELF
from kfac.linalg.vectors import Vector, as_vector

MultiplyInverse: TypeAlias = Callable[[GradsAndVars], GradsAndVars]
"""A function that multiplies a vector, given as (part, variable), by M⁻¹."""


def preconditioned(
    multiply_inverse: MultiplyInverse,
    vectors: Sequence[Vector],
    variables: Sequence[Variable],
) -> list[Vector]:
    """Returns M⁻¹x for a vector x, as a function of pairs computes it, which a user may have made.

    Args:
      multiply_inverse: Returns (part of M⁻¹x, variable), given (part of x, variable).
      vectors: x, one part per variable.
      variables: All registered variables.

    Raises:
      ValueError: The function leaves out a variable.
    """
    pairs = multiply_inverse(list(zip(vectors, variables, strict=True)))
    products = {variable.ref(): product for product, variable in pairs if product is not None}
    missing = [variable.op.name for variable in variables if variable.ref() not in products]
    if missing:
        raise ValueError(
            f"multiply_preconditioner returned no product for {', '.join(missing)}. It must return "
            "a pair (product, variable) for every pair (vector, variable) that it is given."
        )
    return [products[variable.ref()] for variable in variables]


@typing.final
class Preconditioner:
    """Products with the damped Fisher matrix M of an estimator, and with M⁻¹."""

    def __init__(self, estimator: FisherEstimator, from_identity: bool) -> None:
        """Keeps its arguments.

        Args:
          estimator: The estimator.
          from_identity: Whether a block that has no inverse yet counts as a damped identity matrix.
            If not, its products with M⁻¹ are zero.
        """
        self._estimator = estimator
        self._from_identity = from_identity

    def as_vectors(self, pairs: Sequence[tuple[Any, Variable]]) -> list[Vector]:
        """Returns gradients as a vector. They stay sparse where the block multiplies such.

        Args:
          pairs: (gradient, variable), a gradient being shaped as its variable.
        """
        keep = {
            param.ref()
            for block in self._estimator.blocks
            if isinstance(block, KroneckerBlock) and isinstance(block.input_factor, DiagonalFactor)
            for param in as_tuple(block.params)
        }
        return [as_vector(gradient, v, v.ref() in keep) for gradient, v in pairs]

    def multiply_inverse(self, vecs_and_vars: GradsAndVars) -> list[tuple[Vector, Variable]]:
        """Returns M⁻¹x for a vector x.

        Args:
          vecs_and_vars: (part of x, variable) for all registered variables.
        """
        return self._estimator.multiply_function(
            INVERSE, vecs_and_vars, from_identity=self._from_identity
        )

    def multiply(self, vectors: Sequence[Vector], variables: Sequence[Variable]) -> list[Vector]:
        """Returns Mx for a vector x.

        Args:
          vectors: x, one part per variable.
          variables: All registered variables.
        """
        pairs = list(zip(vectors, variables, strict=True))
        products = self._estimator.multiply_function(
            ITSELF, pairs, from_identity=self._from_identity
        )
        return [product for product, _ in products]


def check_gradients(
    layers: LayerCollection, grads_and_vars: GradsAndVars
) -> list[tuple[Any, Variable]]:
    """Checks that gradients and registered variables match.

    Args:
      layers: The layer collection.
      grads_and_vars: (gradient, variable) for every registered variable. Others may be among them
        only if their gradient is None.

    Returns:
      The pairs that have a gradient.

    Raises:
      ValueError: They do not match; the message names the variables.
    """
    pairs = [(gradient, v) for gradient, v in grads_and_vars if gradient is not None]
    present = {variable.ref() for _, variable in pairs}
    registered = {variable.ref() for variable in layers.registered_variables}
    uncovered = [v.op.name for _, v in pairs if v.ref() not in registered]
    if uncovered:
        raise ValueError(
            f"K-FAC cannot train {', '.join(uncovered)}: no layer registered in "
            f"{layers.name} covers them. Register their layers with "
            "register_fully_connected or register_conv2d (a bias goes with its weight, as "
            "(weight, bias)), or train them with another optimizer and leave them out of "
            "var_list."
        )
    unreached = [v.op.name for v in layers.registered_variables if v.ref() not in present]
    if unreached:
        raise ValueError(
            f"K-FAC has no gradient for {', '.join(unreached)}, which are registered in "
            f"{layers.name}. Pass the gradients of all registered variables; see "
            "that the loss depends on them, or do not register their layers."
        )
    return pairs
