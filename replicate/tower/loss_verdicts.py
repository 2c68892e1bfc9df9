"""Verdicts on the losses of towers: sums over the rows of the batch, or means.

If the settings of the towers leave the reduction open, a verdict decides if the towers' gradients
are added up or averaged. It comes from the graph of the loss, see `batch_growth`, which heads and
functions of `tf.losses` shorten: they tell the reduction of what they return. If the graph does not
tell, the last function decides that told the reduction of a part of the loss, or if none did that
of another loss, as in TensorFlow 1. Where each device of a strategy gets a batch of its own, only
these functions count, as for TensorFlow's strategies.
"""

from collections.abc import Sequence
from typing import Any, final

import tensorflow as tf
from absl import logging

from replicate._types import Nest, Operation, Tensor
from replicate.batch.nests import flatten
from replicate.graph_ops.state import ancestors
from replicate.tower.batch_growth import BatchGrowth
from replicate.tower.growth import CONSTANT, Growth

v1 = tf.compat.v1
log = logging.get_absl_logger()

_gradients: Any = v1.gradients
"""The function of TensorFlow, also while `replicate.unmodified.losses` replaces it."""


@final
class LossVerdicts:
    """Verdicts on the losses of the towers of one replicated call."""

    def __init__(self, averages: bool | None, towers: int, reads_graph: bool = True):
        """Starts with no loss.

        Args:
          averages: What the settings say; None if they leave it open.
          towers: Number of towers.
          reads_graph: False to leave all to the functions that tell a reduction.
        """
        self._averages = averages
        self._reads_graph = reads_graph
        self._towers = towers
        self._growth: BatchGrowth | None = None
        self._has_told = False
        self._told: dict[Operation, bool] = {}
        """True for the losses of this tower that a function has told to be sums, by operation."""
        self._is_computed = False
        """True from a call of `compute_gradients` to the next one of `apply_gradients`."""
        self._of_gradients: bool | None = None
        """Verdict on the last loss of `tf.gradients` since the last `apply_gradients`."""
        self._of_optimizers: dict[Any, bool] = {}
        """Verdict on the last loss of each optimizer's `compute_gradients`."""
        self._logged: set[str] = set()
        self.sums_loss = False
        """True if the last loss is a sum."""

    def begin_tower(self, batch: Nest, whole: Sequence[Tensor] = ()) -> None:
        """Starts a tower.

        Args:
          batch: Features and labels of its shard.
          whole: Tensors among them that the other towers have, too.
        """
        if self._towers > 1 and self._reads_graph:
            self._growth = _growth_of_batch(batch, whole)
            self._told.clear()

    def tell(self, loss: Tensor, is_sum: bool) -> None:
        """Notes the reduction of a loss by the function that made it."""
        self._has_told = True
        self.sums_loss = is_sum
        if self._growth is not None and isinstance(loss, tf.Tensor):
            self._growth.tell(loss, Growth(1) if is_sum else CONSTANT)
            self._told[loss.op] = is_sum

    def computed(self, loss: Tensor, optimizer: Any = None) -> None:
        """Judges a loss whose gradients an optimizer computes, or which a model_fn returns."""
        self._is_computed = True
        self._of_optimizers.pop(optimizer, None)
        verdict = self._judge(loss)
        if verdict is not None:
            self.sums_loss = self._of_optimizers[optimizer] = verdict

    def differentiated(self, loss: Tensor) -> None:
        """Judges a loss of `tf.gradients`."""
        self._of_gradients = self._judge(loss)

    def applied(self, optimizer: Any) -> None:
        """Ends a call of `apply_gradients`; to be called before its gradients are weighted.

        Other optimizers may have computed the gradients of other losses since its own.
        """
        if optimizer in self._of_optimizers:
            self.sums_loss = self._of_optimizers.pop(optimizer)
        elif not self._is_computed and self._of_gradients is not None:
            self.sums_loss = self._of_gradients
        self._is_computed, self._of_gradients = False, None

    def without_constants(self, loss: Tensor) -> Tensor:
        """Returns a sum without the terms that do not depend on the batch, such as penalties.

        The first tower counts these.
        """
        growth = self._growth and self._growth.of(loss)
        if not growth or not growth.constants:
            return loss
        constants = growth.constants
        factors = _gradients(loss, constants)
        with v1.name_scope("counted_once"):
            terms = [tf.stop_gradient(f) * term for f, term in zip(factors, constants, strict=True)]
            return loss - tf.add_n(terms)

    def _judge(self, loss: Tensor) -> bool | None:
        """Returns True for a sum, False for a mean, and None if the graph does not tell."""
        if self._growth is None or not isinstance(loss, tf.Tensor) or loss.shape.rank != 0:
            return None
        growth = self._growth.of(loss)
        verdict = None
        if growth is not None and growth.degree in (0, 1):
            verdict = growth.degree == 1
        if verdict is None:
            verdict = self._told_of_part(loss)
        if verdict is None:
            self._say_unknown(loss)
        elif verdict and self._averages:
            self._say_contradiction(loss)
        return verdict

    def _told_of_part(self, loss: Tensor) -> bool | None:
        """Returns the reduction that was told last of what a loss is made of; None if none was."""
        parts = ancestors([loss.op], control=False) if self._told else set()
        told = [is_sum for op, is_sum in self._told.items() if op in parts]
        return told[-1] if told else None

    def _say_unknown(self, loss: Tensor) -> None:
        if self._averages is None and not self._has_told:
            self._say(
                "The graph does not tell if the loss %r is a sum or a mean over the rows of a "
                "batch. The gradients of %d towers are averaged: if it is a sum, they train at 1/%d"
                " of its gradients. Then pass loss_reduction=tf.losses.Reduction.SUM, or compute "
                "it by a function of tf.losses with reduction=SUM.",
                loss,
            )

    def _say_contradiction(self, loss: Tensor) -> None:
        self._say(
            "The loss %r is a sum over the rows of a batch, but loss_reduction says that it is a "
            "mean: %d towers train at 1/%d of its gradients. Pass loss_reduction="
            "tf.losses.Reduction.SUM.",
            loss,
        )

    def _say(self, text: str, loss: Tensor) -> None:
        """Logs a sentence, once for all towers."""
        if text not in self._logged:
            self._logged.add(text)
            log.warning(text, loss.op.name, self._towers, self._towers)


def _growth_of_batch(batch: Nest, whole: Sequence[Tensor]) -> BatchGrowth:
    """Returns the growth of the tensors of a batch itself: axis 0 of each has the rows."""
    held = {leaf.ref() for leaf in whole if _is_tensor(leaf)}
    known: dict[Any, Growth] = {}
    rows = None
    for leaf in flatten(batch):
        parts = flatten(leaf, expand_composites=True)
        for part in parts:
            if not _is_tensor(part):
                continue
            if part.ref() in held or not part.shape.rank:
                known[part.ref()] = CONSTANT
            elif isinstance(leaf, tf.SparseTensor) and part is leaf.dense_shape:
                axes = part.shape.as_list()[0] or 1
                known[part.ref()] = Growth(sizes=(1, *([0] * (axes - 1))))
            else:
                known[part.ref()] = Growth(axis=-part.shape.rank)
                size = part.shape.as_list()[0]
                if part is leaf and size is not None:
                    rows = size
    return BatchGrowth(known, rows)


def _is_tensor(leaf: Any) -> bool:
    return isinstance(leaf, tf.Tensor)
