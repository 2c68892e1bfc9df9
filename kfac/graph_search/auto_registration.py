"""`auto_register_layers`: the method of a layer collection, and what it remembers.

Scans one tower after the other, and none twice, so that each tower's model function can ask for
its own, or one call for all. Extended by `kfac.layer_collection.LayerCollection`.
"""

from collections.abc import Sequence

import tensorflow as tf
from absl import logging

from kfac._types import Graph, Parameters, Scalar, Tensor, Variable
from kfac.config import CurvatureConfig
from kfac.fisher_blocks.base import FisherBlock, as_tuple
from kfac.graph_search.decision import Decision, warning_text
from kfac.graph_search.registration import LayerRegistration, carry_out
from kfac.graph_search.scanner import plan_tower
from kfac.graph_search.tower import Tower
from kfac.graph_search.uses import Batch

v1 = tf.compat.v1


class AutoRegistration(LayerRegistration):
    """Registers the layers of a model by looking at its graph."""

    def __init__(self, graph: Graph, name: str, config: CurvatureConfig | None) -> None:
        """Starts without layers.

        Args:
          graph: The graph of the model; None means the current default graph.
          name: Used in messages only.
          config: Settings of all factors and blocks; None means the defaults.
        """
        super().__init__(graph, name, config)
        self._scanned_towers = 0
        self._scanned: frozenset[Parameters] = frozenset()
        self._decisions: tuple[Decision, ...] = ()

    @property
    def decisions(self) -> tuple[Decision, ...]:
        """What automatic registration decided about each parameter, in the first tower."""
        return self._decisions

    def auto_register_layers(
        self, var_list: Sequence[Variable] | None = None, batch_size: Scalar | None = None
    ) -> dict[Parameters, FisherBlock]:
        """Registers the layers between parameters and the registered losses.

        Looks at the graph of each tower that has registered its losses and was not scanned before.
        Call it when the losses are registered: once after all towers, or in each tower. What was
        registered by hand is left as it is. A parameter that is in no layer that is known is
        registered as generic, and a warning says why; `report` tells what each was taken for.

        Args:
          var_list: The parameters; None means all trainable variables of the graph.
          batch_size: Examples in one tower's share of the batch, an int or an int Tensor []; None
            means the rows of the losses' inputs. Needed if these are not examples, as where time
            steps are folded into them. A layer in several places whose rows are only a part of the
            examples has one use in each.

        Returns:
          The blocks that are new, by their parameter or tuple of parameters.

        Raises:
          ValueError: No loss is registered, or losses are registered by different numbers of
            towers; all towers were scanned; a linked group of several parameters is no layer, or
            a parameter that is linked alone becomes generic with an approximation that generic
            parameters do not have; parameters are in layers of several kinds, or scale several
            tensors; the batch size does not divide the rows of a layer; registration is over.
          AmbiguousRegistrationError: A parameter could belong to two layers, or there is one of
            no layer and the number of examples is unknown. It is a ValueError, too.
        """
        self._check_open("layers automatically")
        towers = self._inputs_by_tower()
        if self._scanned_towers >= len(towers):
            raise ValueError(
                f"Cannot register layers automatically in {self.name}: all {len(towers)} tower(s) "
                "with registered losses were scanned before. Register all losses of a tower, then "
                "call auto_register_layers once."
            )
        if var_list is None:
            var_list = self.graph.get_collection(v1.GraphKeys.TRAINABLE_VARIABLES)
        before = set(self._blocks)
        with self.graph.as_default(), self.graph.control_dependencies(None):
            for loss_inputs in towers[self._scanned_towers :]:
                self._scan(Tower(loss_inputs, var_list), batch_size)
        return {key: block for key, block in self._blocks.items() if key not in before}

    def _inputs_by_tower(self) -> list[list[Tensor]]:
        """Returns the inputs of the losses of each tower."""
        towers = {name: len(entry.towers) for name, entry in self.losses_by_name.items()}
        if not towers:
            raise ValueError(
                f"Cannot register layers automatically in {self.name}: no loss is registered. "
                "Register the losses first; layers are looked for between parameters and losses."
            )
        if len(set(towers.values())) > 1:
            raise ValueError(
                f"Cannot register layers automatically in {self.name}: losses are registered by "
                f"different numbers of towers, {towers}. Every tower must register all losses "
                "before layers are looked for."
            )
        by_tower = zip(*self.towers_by_loss, strict=True)
        return [tf.nest.flatten([loss.inputs for loss in losses]) for losses in by_tower]

    def _scan(self, tower: Tower, batch_size: Scalar | None) -> None:
        """Registers what one more tower has."""
        by_hand = [key for key in self._blocks if key not in self._scanned]
        batch = Batch(tower.rows(), False) if batch_size is None else Batch(batch_size, True)
        plan = plan_tower(
            tower,
            [variable for key in by_hand for variable in as_tuple(key)],
            self.linked_parameters,
            batch,
        )
        is_first = self._scanned_towers == 0
        carry_out(self, plan.plans, reuse=not is_first)
        self._scanned_towers += 1
        self._scanned |= set(plan.plans)
        if is_first:
            self._decisions = tuple(plan.decisions)
            warning = warning_text(plan.decisions)
            if warning is not None:
                logging.get_absl_logger().warning("%s", warning)
