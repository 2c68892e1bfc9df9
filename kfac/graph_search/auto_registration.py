"""Automatic registration in one layer collection, tower after tower.

No tower is scanned twice: each tower's model function may ask for its own scan, or one call scans
all. Owned by `kfac.layer_collection.LayerCollection`.
"""

from collections.abc import Sequence
from typing import final

import tensorflow as tf
from absl import logging

from kfac._types import Parameters, Scalar, Tensor, Variable
from kfac.fisher_blocks.base import FisherBlock, as_tuple
from kfac.graph_search.layer_uses import Batch
from kfac.graph_search.registration import register_plans
from kfac.graph_search.scanner import plan_tower
from kfac.graph_search.tower import Tower
from kfac.graph_search.weight_sharing import Sharing
from kfac.loss_functions.base import LossFunction
from kfac.registration.layer_table import LayerTable
from kfac.registration.loss_table import LossTable
from kfac.registration.report import Decision, warning_text
from kfac.variables import check_not_partitioned

v1 = tf.compat.v1


@final
class AutoRegistration:
    """Registers layers by scanning the graph, and remembers which towers were scanned.

    The towers are found from the registered losses.

    Attributes:
      decisions: Decision about each parameter, taken in the first tower.
    """

    def __init__(self, layers: LayerTable, losses: LossTable) -> None:
        self._layers = layers
        self._losses = losses
        self._scope = layers.scope
        self._scanned_towers = 0
        self._scanned: frozenset[Parameters] = frozenset()
        self.decisions: tuple[Decision, ...] = ()

    def register(
        self,
        var_list: Sequence[Variable] | None = None,
        batch_size: Scalar | None = None,
        finds_positions: bool = False,
        mask: Tensor | None = None,
    ) -> dict[Parameters, FisherBlock]:
        """Registers the layers between parameters and losses, in towers not scanned yet.

        Arguments, results and errors are those of `LayerCollection.auto_register_layers`.
        """
        self._scope.check_open("layers automatically")
        towers = self._losses_by_tower()
        if self._scanned_towers >= len(towers):
            raise ValueError(
                f"Cannot register layers automatically in {self._scope.name}: all {len(towers)} "
                "tower(s) with registered losses were scanned before. Register all losses of a "
                "tower, then call auto_register_layers once."
            )
        graph = self._scope.graph
        if var_list is None:
            var_list = graph.get_collection(v1.GraphKeys.TRAINABLE_VARIABLES)
        check_not_partitioned("register layers automatically", var_list)
        before = set(self._layers.blocks)
        with graph.as_default(), graph.control_dependencies(None):
            for losses in self._unscanned(towers, mask):
                inputs = tf.nest.flatten([loss.inputs for loss in losses])
                sharing = Sharing(self._layers, losses, mask)
                self._scan(Tower(inputs, var_list, finds_positions, sharing.of), batch_size)
        return {key: block for key, block in self._layers.blocks.items() if key not in before}

    def _unscanned(
        self, towers: Sequence[Sequence[LossFunction]], mask: Tensor | None
    ) -> Sequence[Sequence[LossFunction]]:
        left = towers[self._scanned_towers :]
        if mask is not None and len(left) > 1:
            raise ValueError(
                f"Cannot register layers automatically in {self._scope.name}: mask is that of one "
                f"tower, and {len(left)} are to be scanned. Call auto_register_layers in each "
                "tower, with its mask, after its losses."
            )
        return left

    def _losses_by_tower(self) -> list[tuple[LossFunction, ...]]:
        """Returns the losses of each tower."""
        towers = {name: len(entry.towers) for name, entry in self._losses.entries.items()}
        if not towers:
            raise ValueError(
                f"Cannot register layers automatically in {self._scope.name}: no loss is "
                "registered. Register the losses first; layers are looked for between parameters "
                "and losses."
            )
        if len(set(towers.values())) > 1:
            raise ValueError(
                f"Cannot register layers automatically in {self._scope.name}: losses are "
                f"registered by different numbers of towers, {towers}. Every tower must register "
                "all losses before layers are looked for."
            )
        return list(zip(*self._losses.towers_by_loss, strict=True))

    def _scan(self, tower: Tower, batch_size: Scalar | None) -> None:
        """Registers the layers of one tower."""
        by_hand = [key for key in self._layers.blocks if key not in self._scanned]
        batch = Batch(tower.rows(), False) if batch_size is None else Batch(batch_size, True)
        plan = plan_tower(
            tower,
            [variable for key in by_hand for variable in as_tuple(key)],
            self._layers.linked_parameters,
            batch,
        )
        is_first = self._scanned_towers == 0
        register_plans(self._layers, plan.plans, reuse=not is_first)
        self._scanned_towers += 1
        self._scanned |= set(plan.plans)
        if is_first:
            self.decisions = tuple(plan.decisions)
            warning = warning_text(plan.decisions)
            if warning is not None:
                logging.get_absl_logger().warning("%s", warning)
