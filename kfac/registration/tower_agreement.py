"""Checks that an optimizer got the losses and batches of exactly the registered towers.

An optimizer or a layer collection that is made once per tower would train without an error, but its
curvature or damping would ignore most of the batch. Called by `kfac.damping.training_loss` when the
step is built. The collection compares what towers register.
"""

from collections.abc import Sequence

import tensorflow as tf

from kfac._types import Graph, Tensor
from kfac.registration.loss_table import RegisteredLosses
from kfac.registration.subgraph import SubGraph


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
    towers = max(map(len, layers.towers_by_loss), default=batches)
    if batches != towers:
        raise ValueError(
            f"Cannot adapt K-FAC's damping: add_tower_batch was called {batches} times, with "
            f"{towers} towers registered in {layers.name}. Call it once in each tower, of one "
            "optimizer: make that in a function, replicate.TowerOptimizer(make_optimizer)."
        )


def _reached(subgraph: SubGraph, layers: RegisteredLosses) -> list[bool]:
    """Returns one bool per registered tower: True if the subgraph has one of its losses."""
    towers = max(map(len, layers.towers_by_loss), default=0)
    return [
        any(
            subgraph.is_member(tensor)
            for losses in layers.towers_by_loss
            for loss in losses[tower : tower + 1]
            for tensor in tf.nest.flatten(loss.inputs)
            if tf.is_tensor(tensor)
        )
        for tower in range(towers)
    ]
