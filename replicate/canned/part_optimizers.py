"""Optimizers of the parts of a canned model: what the user gave, and the part that it trains."""

import dataclasses
from typing import Any, final

import tensorflow as tf

from replicate._types import Nest
from replicate.canned.model_record import ModelRecord, register_model
from replicate.canned.optimizers import checked_optimizer, resolved_optimizer
from replicate.canned.parts import PartLogits
from replicate.saved.checkpoint_names import allow_missing_state

v1 = tf.compat.v1


@final
@dataclasses.dataclass(frozen=True)
class PartOptimizer:
    """Optimizer of a part, as the user gave it. The fields are arguments of `checked_optimizer`."""

    given: Any
    learning_rate: float
    owner: str
    argument: str = "optimizer"

    def checked(self) -> "PartOptimizer":
        """Returns the same with a value that has been checked.

        Raises:
          ValueError: It is none that an estimator takes.
        """
        given = checked_optimizer(self.given, self.learning_rate, self.owner, self.argument)
        return dataclasses.replace(self, given=given)

    def make(self, head: Any, features: Nest, logits: Any, part: PartLogits) -> Any:
        """Returns the optimizer of the current graph. Call it in TRAIN.

        A function with a method `register` is first handed the record of the model. Checkpoints may
        lack the optimizer's state, as those of `tf.estimator` do.

        Raises:
          ValueError: The function makes no optimizer.
        """
        register_model(self.given, lambda: self._record(head, features, logits, part))
        made = resolved_optimizer(self.given, self.learning_rate, self.owner, self.argument)
        allow_missing_state(made)
        return made

    def _record(self, head: Any, features: Nest, logits: Any, part: PartLogits) -> ModelRecord:
        describe = getattr(head, "curvature_losses", None)
        losses = describe(logits, features) if describe is not None else None
        return ModelRecord(
            None if losses is None else tuple(losses),
            tuple(part.layers),
            tuple(part.variables),
            head.loss_reduction,
            type(head).__name__,
        )
