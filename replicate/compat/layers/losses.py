"""Losses and updates of a layer, and the collections that have them."""

from typing import Any

import tensorflow as tf

from replicate.compat.layers.records import Records
from replicate.compat.layers.scoped import Scoped

v1 = tf.compat.v1
_KEYS = v1.GraphKeys


class WithLosses(Scoped):
    """A layer with losses and updates.

    Attributes:
      trainable: False to keep the variables from being trained.
      stateful: True if updates count although the layer is not trainable.
    """

    def __init__(self, trainable: bool, **place: Any) -> None:
        """Makes a layer without losses.

        Args:
          trainable: As the attribute.
          **place: Arguments of `Scoped`.
        """
        super().__init__(**place)
        self._records = Records()
        self.trainable = trainable
        self.stateful = False

    @property
    def losses(self) -> list[Any]:
        """Losses of regularizers and of `add_loss`, Tensors."""
        return list(self._records.losses)

    @property
    def updates(self) -> list[Any]:
        """Operations of `add_update`; none if the layer is neither trainable nor stateful."""
        return list(self._records.updates) if self.trainable or self.stateful else []

    def get_losses_for(self, inputs: Any) -> list[Any]:
        """Returns the losses that depend on inputs; with None those that depend on no inputs."""
        return self._records.dependent(self.losses, inputs)

    def get_updates_for(self, inputs: Any) -> list[Any]:
        """Returns the updates that depend on inputs; with None those that depend on no inputs."""
        return self._records.dependent(self.updates, inputs)

    def add_loss(self, losses: Any, inputs: Any = None) -> None:
        """Adds losses to the layer and to the collection REGULARIZATION_LOSSES.

        Args:
          losses: Tensor or list of Tensors; a function of no arguments stands for its result.
          inputs: Kept for old programs: `get_losses_for` follows the graph.
        """
        del inputs
        for loss in losses if isinstance(losses, list | tuple) else [losses]:
            value = loss() if callable(loss) else loss
            if value is not None:
                tensor = tf.convert_to_tensor(value)
                self._records.losses.append(tensor)
                _collect(_KEYS.REGULARIZATION_LOSSES, [tensor])

    def add_update(self, updates: Any, inputs: Any = None) -> None:
        """Adds updates to the layer; its call adds them to the collection UPDATE_OPS.

        Args:
          updates: Operation or Tensor, or a list of them; a function of no arguments stands for its
            result.
          inputs: Kept for old programs: `get_updates_for` follows the graph.
        """
        del inputs
        for update in updates if isinstance(updates, list | tuple) else [updates]:
            value = update() if callable(update) else update
            if value is not None:
                self._records.updates.append(getattr(value, "op", value))

    def _collect_updates(self) -> None:
        _collect(_KEYS.UPDATE_OPS, self.updates)


def _collect(key: str, entries: list[Any]) -> None:
    """Adds entries to a collection that are not in it."""
    known = {id(each) for each in v1.get_collection(key)}
    for entry in entries:
        if id(entry) not in known:
            v1.add_to_collection(key, entry)
