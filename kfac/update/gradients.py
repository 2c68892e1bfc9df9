"""Check that gradients fit the registered model. Called by the optimizer."""

from typing import Any

from kfac._types import GradsAndVars, Variable
from kfac.registration.registered_model import RegisteredModel
from kfac.variables import check_not_partitioned, name_of


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
