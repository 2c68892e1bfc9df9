"""The loss on one mini-batch before and after a step, over all towers.

Before the step it is what `compute_gradients` was given, or what a function of the batch returns.
After it another forward pass tells: such a function's, or, for the current batch, a copy of the
part of the graph that the weights change. Called by the optimizer, which collects losses here, and
by the damping adaptation, which compares them.
"""

import typing
from collections.abc import Callable
from typing import Any, NamedTuple

import tensorflow as tf

from kfac._types import DType, Tensor
from kfac.damping.recomputed_loss import recomputed
from kfac.linalg.tensor_ops import add_in_order
from kfac.protocols import PART_OF_LOSS
from kfac.registration.checks import check_batches, check_collection, check_losses
from kfac.registration.registered_model import RegisteredModel
from kfac.workers import mean_loss

v1 = tf.compat.v1


class TowerBatch(NamedTuple):
    """The inputs of one tower's loss: the batch of this step, and that of the step before, or None.

    The scope is the variable scope of the tower.
    """

    current: Any
    previous: Any
    scope: Any
    device: str


@typing.final
class TrainingLoss:
    """The loss that is minimized, as a function of the weights."""

    def __init__(
        self,
        loss: Tensor | None,
        loss_fn: Callable[[Any], Tensor] | None,
        train_batch: Any,
        prev_train_batch: Any,
        use_passed_loss: bool,
        layers: RegisteredModel,
    ) -> None:
        """Builds nothing.

        `loss` is the mean over all towers' batch; None means what `compute_gradients` is given.
        `loss_fn` returns the mean loss, shape [], on a batch. `use_passed_loss` means that the loss
        before the step is the passed one, not `loss_fn`'s.

        Raises:
          ValueError: Without the passed loss there is no batch to compute it on.
        """
        if not use_passed_loss and (train_batch is None or loss_fn is None):
            raise ValueError(
                f"Cannot set up K-FAC: use_passed_loss=False, train_batch={train_batch!r}, "
                f"loss_fn={loss_fn!r}. Pass loss_fn, which computes the loss of a batch, and the "
                "batch as train_batch; or leave use_passed_loss=True."
            )
        self._loss = loss
        self._loss_fn = loss_fn
        self._single = (train_batch, prev_train_batch)
        self._towers: list[TowerBatch] = []
        self._collected: list[Tensor] = []
        self._use_passed_loss = use_passed_loss
        self._layers = layers

    def set(self, loss: Tensor) -> None:
        """Sets the mean loss over all towers' batch."""
        self._loss = loss

    def collect(self, loss: Tensor) -> None:
        """Adds the loss of a tower; as with their gradients, the sum of all parts counts."""
        parts = v1.get_collection(PART_OF_LOSS)
        self._collected.append(parts[-1](loss) if parts else loss)

    def check(self) -> None:
        """Checks that what was collected belongs to the registered towers.

        Raises:
          ValueError: A part is of a tower that another collection has.
        """
        check_collection(self._layers, self._collected)

    def add_tower(self, current: Any, previous: Any) -> None:
        """Adds the batches of the tower that is being built; its scope and device are kept."""
        device = v1.no_op().device
        self._towers.append(TowerBatch(current, previous, v1.get_variable_scope(), device))

    def before_step(self, dtype: DType) -> Tensor:
        """Returns the loss of the current batch, shape [].

        Raises:
          ValueError: There is none, or that of some towers is missing.
        """
        if not self._use_passed_loss:
            return self.on_current_batch(dtype)
        return mean_loss(_total(self._passed_parts(), dtype))

    def _passed_parts(self) -> list[Tensor]:
        """Returns what was passed: one loss, or a part of it from each tower.

        Raises:
          ValueError: There is none, or that of some towers is missing.
        """
        parts = [self._loss]
        if self._loss is None:
            parts = self._collected
            check_losses(self._layers, parts)
        if not parts:
            raise ValueError(
                "Cannot adapt K-FAC's damping: the loss is not known. Let this optimizer's "
                "compute_gradients or minimize compute the gradients, or call set_loss(loss) "
                "before apply_gradients."
            )
        return [tf.convert_to_tensor(part) for part in parts]

    def on_current_batch(self, dtype: DType) -> Tensor:
        """Returns the loss of the current batch with the weights as they are now.

        Without a function and a batch it is what `before_step` returns, computed once more.

        Raises:
          ValueError: There is no function or no batch, some towers have none, or the loss cannot
            be computed once more.
        """
        if self._loss_fn is None and self._single[0] is None and not self._towers:
            parts = self._passed_parts()
            again = recomputed(parts, self._layers.registered_variables)
            return mean_loss(_total(again, dtype))
        return self._evaluate("train_batch", 0, [tower.current for tower in self._towers], dtype)

    def on_previous_batch(self, dtype: DType) -> Tensor:
        """Returns the loss of the previous batch with the weights as they are now.

        Raises:
          ValueError: There is no function or no batch, or some towers have none.
        """
        batches = [tower.previous for tower in self._towers]
        return self._evaluate("prev_train_batch", 1, batches, dtype)

    def _evaluate(self, argument: str, index: int, batches: list[Any], dtype: DType) -> Tensor:
        """Returns the mean of the loss function over the towers' batches."""
        given = batches or [self._single[index]]
        if self._loss_fn is None or any(batch is None for batch in given):
            raise ValueError(
                f"Cannot adapt K-FAC's damping: it needs the loss of {argument} after a step, with "
                f"loss_fn={self._loss_fn!r} and {argument}={given[0]!r}. Pass both to the "
                "optimizer; with several towers call add_tower_batch in each of them."
            )
        if not batches:
            return mean_loss(tf.cast(self._loss_fn(given[0]), dtype))
        check_batches(self._layers, len(batches))
        losses = []
        for tower, batch in zip(self._towers, batches, strict=True):
            scope = v1.variable_scope(tower.scope, reuse=True, auxiliary_name_scope=False)
            with v1.device(tower.device), scope:
                losses.append(tf.cast(self._loss_fn(batch), dtype))
        return mean_loss(add_in_order(losses) / tf.constant(len(losses), dtype))


def _total(parts: list[Tensor], dtype: DType) -> Tensor:
    return tf.cast(add_in_order(parts), dtype)
