"""Task: the knowledge that distinguishes one kind of head from another.

A task converts labels, computes losses and predictions, and lists metrics and signatures. It has no
weights and no reduction: `task_head.TaskHead` owns those.
"""

import abc
import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from replicate._types import Tensor
from replicate.canned.heads.curvature import LossKind
from replicate.canned.heads.measures import Measure
from replicate.export.outputs import ExportOutput


class Examples(NamedTuple):
    """A batch whose metrics are computed. Labels are as the task converts them."""

    labels: Tensor
    predictions: Mapping[str, Tensor]
    losses: Tensor


class TaskMetric(NamedTuple):
    """A metric of a task: its key without the head's name, and the values that it measures."""

    key: str
    measure: Measure
    values: Callable[[Examples], Sequence[Tensor]]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Task(abc.ABC):
    """A kind of classification or regression.

    Attributes:
      where: Name of the head, for errors.
      logits_dimension: Last dimension of the logits.
      loss_dimension: Last dimension of the examples' losses.
      weights_per_logit: True if weights may have the shape of the logits.
      kind: Kind of the loss for optimizers of second order, or None.
      coefficient: Factor of the negative log-likelihood in the mean loss.
    """

    where: str
    logits_dimension: int
    loss_dimension: int = 1
    weights_per_logit: bool = False
    kind: LossKind | None = None
    coefficient: float = 1.0

    @abc.abstractmethod
    def labels(self, labels: Any, logits: Tensor) -> Tensor:
        """Converts labels to ids or floats, [D0, ..., DN, dimension of the labels].

        Raises:
          ValueError: They are of a wrong kind, type or shape, or out of range.
        """

    @abc.abstractmethod
    def losses(self, labels: Tensor, logits: Tensor) -> Tensor:
        """Computes the loss of each example, float32 [D0, ..., DN, loss_dimension]."""

    @abc.abstractmethod
    def predictions(self, logits: Tensor) -> dict[str, Tensor]:
        """Computes all predictions from logits, float32 [D0, ..., DN, logits_dimension]."""

    @abc.abstractmethod
    def metrics(self) -> list[TaskMetric]:
        """Lists the metrics."""

    @abc.abstractmethod
    def export_outputs(self, predictions: Mapping[str, Tensor]) -> dict[str, ExportOutput]:
        """Makes the signatures of an exported model."""


AVERAGE_LOSS = "average_loss"


def average_loss(measure: Measure) -> TaskMetric:
    """Makes the metric of the examples' losses."""
    return TaskMetric(AVERAGE_LOSS, measure, lambda examples: [examples.losses])
