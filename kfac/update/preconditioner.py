"""Vectors of gradients and of preconditioned gradients, and the check that they fit the curvature.

Turns gradients into vectors, and the products that a method of the optimizer returns into vectors
again. Called by the optimizer and its step.
"""

from collections.abc import Sequence
from typing import Any

from kfac._types import GradsAndVars, Variable
from kfac.fisher_blocks.base import FisherBlock, as_tuple
from kfac.linalg.vectors import Vector, as_vector
from kfac.registration.registered_model import RegisteredModel
from kfac.variables import check_not_partitioned, name_of


def in_order(products: GradsAndVars, variables: Sequence[Variable]) -> list[Vector]:
    """Returns the products of a vector with M⁻¹, which a user's method may have made, as a vector.

    Args:
      products: (part of the product, variable), in any order.
      variables: All registered variables.

    Raises:
      ValueError: A variable is missing.
    """
    by_variable = {variable.ref(): product for product, variable in products if product is not None}
    missing = [name_of(variable) for variable in variables if variable.ref() not in by_variable]
    if missing:
        raise ValueError(
            f"multiply_preconditioner returned no product for {', '.join(missing)}. It must return "
            "a pair (product, variable) for every pair (vector, variable) that it is given."
        )
    return [by_variable[variable.ref()] for variable in variables]


def as_vectors(
    blocks: Sequence[FisherBlock], pairs: Sequence[tuple[Any, Variable]]
) -> list[Vector]:
    """Returns gradients as a vector. They stay sparse where the block multiplies such.

    Args:
      blocks: The blocks.
      pairs: (gradient, variable), a gradient being shaped as its variable.
    """
    keep = {
        param.ref()
        for block in blocks
        if block.multiplies_slices
        for param in as_tuple(block.params)
    }
    return [as_vector(gradient, v, v.ref() in keep) for gradient, v in pairs]


def check_gradients(
    layers: RegisteredModel, grads_and_vars: GradsAndVars
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
      TypeError: A variable is partitioned.
    """
    pairs = [(gradient, v) for gradient, v in grads_and_vars if gradient is not None]
    check_not_partitioned("apply gradients", [variable for _, variable in pairs])
    present = {variable.ref() for _, variable in pairs}
    registered = {variable.ref() for variable in layers.registered_variables}
    uncovered = [name_of(v) for _, v in pairs if v.ref() not in registered]
    if uncovered:
        raise ValueError(
            f"K-FAC cannot train {', '.join(uncovered)}: no layer registered in "
            f"{layers.name} covers them. Register their layers with "
            "register_fully_connected or register_conv2d (a bias goes with its weight, as "
            "(weight, bias)), or train them with another optimizer and leave them out of "
            "var_list."
        )
    unreached = [name_of(v) for v in layers.registered_variables if v.ref() not in present]
    if unreached:
        raise ValueError(
            f"K-FAC has no gradient for {', '.join(unreached)}, which are registered in "
            f"{layers.name}. Pass the gradients of all registered variables; see "
            "that the loss depends on them, or do not register their layers."
        )
    return pairs
