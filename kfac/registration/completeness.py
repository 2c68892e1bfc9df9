"""Checks for a complete registration of a model: all towers, variables and their uses.

Called by the layer collection when registration ends and when an optimizer gets its variables.
"""

from collections.abc import Sequence

from kfac._types import Variable
from kfac.fisher_blocks.base import as_tuple
from kfac.registration.layer_table import LayerTable
from kfac.registration.loss_table import LossTable
from kfac.registration.subgraph import SubGraph
from kfac.variables import check_not_partitioned, name_of


def check_towers(layers: LayerTable, losses: LossTable) -> None:
    """Checks that there are layers and losses, and that all towers have registered all of them.

    Raises:
      ValueError: No loss or no layer is registered, or some layer or loss was registered by fewer
        towers than another.
    """
    name = layers.scope.name
    for kind, registered in (("layer", layers.blocks), ("loss", losses.entries)):
        if not registered:
            raise ValueError(
                f"Cannot compute curvature: {name} has no registered {kind}. Register "
                "layers with register_fully_connected and register_conv2d, and the loss with "
                "register_categorical_predictive_distribution, while the model is built."
            )
    counts = {f"layer {b.name!r}": b.num_registered_towers for b in layers.blocks.values()}
    counts |= {f"loss {name!r}": len(loss.towers) for name, loss in losses.entries.items()}
    towers = max(counts.values())
    short = [f"{what} by {n}" for what, n in counts.items() if n != towers]
    if short:
        raise ValueError(
            f"Cannot compute curvature from {name}: there are {towers} towers, but these "
            f"were registered by fewer: {', '.join(short)}. Every tower must register the "
            "same layers and losses; look for conditions on the tower in the model."
        )


def check_variables(layers: LayerTable, variables: Sequence[Variable]) -> None:
    """Checks that exactly these variables are registered.

    Raises:
      ValueError: Some of them are not registered, or others are; the message names them.
      TypeError: One of them is partitioned.
    """
    check_not_partitioned("check the registration", variables)
    registered = {v.ref(): v for v in layers.variables}
    wanted = {v.ref(): v for v in variables}
    missing = [name_of(v) for ref, v in wanted.items() if ref not in registered]
    if missing:
        raise ValueError(
            f"K-FAC cannot train {', '.join(missing)}: no layer registered in {layers.scope.name} "
            "has them. Register their layers with register_fully_connected or register_conv2d, or "
            "keep them out of var_list."
        )
    extra = [name_of(v) for ref, v in registered.items() if ref not in wanted]
    if extra:
        raise ValueError(
            "K-FAC was asked to train fewer variables than are registered in "
            f"{layers.scope.name}: {', '.join(extra)} would be left out. Put them into var_list, "
            "see that the loss depends on them, or do not register their layers."
        )


def check_uses(layers: LayerTable, subgraph: SubGraph) -> None:
    """Checks that each parameter has at most as many uses as were registered.

    Raises:
      ValueError: A parameter has more uses; the message names it.
    """
    for key in layers.blocks:
        for param in as_tuple(key):
            found, expected = subgraph.variable_uses(param), layers.registered_uses(key)
            if found > expected:
                raise ValueError(
                    f"Cannot compute curvature of {name_of(param)}: the losses depend on "
                    f"{found} uses of it, and {expected:g} are registered in {layers.scope.name}. "
                    "Register all uses, with the register_..._multi method of its layer, or "
                    "the parameter with register_generic."
                )
