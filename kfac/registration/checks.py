"""Checks of registration: of all towers, variables and uses, and of what an optimizer is given.

The layer collection checks itself when registration ends, and when an optimizer gets its variables.
An optimizer or a collection that is made once per tower would train without an error, but its
curvature or damping would ignore most of the batch: so `kfac.damping.training_loss` checks, when
the step is built, that an optimizer got the losses and batches of exactly the registered towers.
"""

from collections.abc import Sequence

import tensorflow as tf

from kfac._types import Graph, Tensor, Variable
from kfac.fisher_blocks.base import as_tuple
from kfac.registration.layer_table import LayerTable
from kfac.registration.loss_table import LossTable, RegisteredLosses
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


def collections_of_graph(graph: Graph) -> list[RegisteredLosses]:
    """Returns the layer collections of a graph: a list kept on the graph, to be appended to.

    Its key is not written into MetaGraphs.
    """
    collections: list[RegisteredLosses] = graph.get_collection_ref((RegisteredLosses,))
    return collections


def check_collection(layers: RegisteredLosses, losses: Sequence[Tensor]) -> None:
    """Checks that no loss of the optimizer comes from the layers of another collection.

    Raises:
      ValueError: A loss depends on losses of another collection, and on none of this one.
    """
    others = [other for other in collections_of_graph(layers.graph) if other is not layers]
    for loss in losses if others else ():
        subgraph = SubGraph([loss])
        if any(_reached(subgraph, layers)):
            continue
        for other in others:
            if any(_reached(subgraph, other)):
                raise ValueError(
                    f"K-FAC cannot minimize {loss.op.name!r} with layer collection {layers.name}: "
                    f"that loss was registered in another collection, {other.name}, so its tower "
                    "would have no part in the curvature. Use one collection in all towers: "
                    "kfac.graph_layer_collection(), not kfac.LayerCollection()."
                )


def check_losses(layers: RegisteredLosses, losses: Sequence[Tensor]) -> None:
    """Checks that, if losses of the optimizer come from some towers, they come from all of them.

    Raises:
      ValueError: A tower is missing.
    """
    reached = _reached(SubGraph(losses), layers)
    missing = [str(tower) for tower, is_reached in enumerate(reached) if not is_reached]
    if missing and any(reached):
        raise ValueError(
            "Cannot adapt K-FAC's damping: compute_gradients was not given the loss of tower "
            f"{', '.join(missing)}, of {len(reached)} that are registered in {layers.name}. Make "
            "one optimizer for all towers, as replicate.TowerOptimizer(make_optimizer) does with a "
            "function; or call set_loss with the mean over all towers."
        )


def check_batches(layers: RegisteredLosses, batches: int) -> None:
    """Checks that each tower has added its batch: there are as many batches as towers.

    Raises:
      ValueError: There are more or fewer batches than towers.
    """
    towers = max(map(len, layers.loss_table.towers_by_loss), default=batches)
    if batches != towers:
        raise ValueError(
            f"Cannot adapt K-FAC's damping: add_tower_batch was called {batches} times, with "
            f"{towers} towers registered in {layers.name}. Call it once in each tower, of one "
            "optimizer: make that in a function, replicate.TowerOptimizer(make_optimizer)."
        )


def _reached(subgraph: SubGraph, layers: RegisteredLosses) -> list[bool]:
    """Returns one bool per registered tower: True if the subgraph has one of its losses."""
    towers = max(map(len, layers.loss_table.towers_by_loss), default=0)
    return [
        any(
            subgraph.is_member(tensor)
            for losses in layers.loss_table.towers_by_loss
            for loss in losses[tower : tower + 1]
            for tensor in tf.nest.flatten(loss.inputs)
            if tf.is_tensor(tensor)
        )
        for tower in range(towers)
    ]
