"""TaskHead: a head of one Tensor of logits, made of a task, weights and a reduction."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import tensorflow as tf

from replicate._types import Nest, Tensor
from replicate.canned.heads.curvature import CurvatureLoss
from replicate.canned.heads.head import REGULARIZATION_LOSS_KEY, Head, keyed
from replicate.canned.heads.labels import checked_logits
from replicate.canned.heads.measures import batch_mean
from replicate.canned.heads.metric_objects import Metric
from replicate.canned.heads.reductions import (
    Reduction,
    call_loss_fn,
    check_loss_fn,
    old_reduction,
    reduced_loss,
    total_regularization,
)
from replicate.canned.heads.task import Examples, Task
from replicate.canned.heads.tensor_names import name_losses, name_predictions
from replicate.canned.heads.weights import check_weight_column, example_weights
from replicate.export.outputs import ExportOutput

v1 = tf.compat.v1


class TaskHead(Head):
    """Head that computes everything by a task. The ready-made heads only choose the task."""

    def __init__(
        self,
        task: Task,
        weight_column: Any,
        loss_reduction: str,
        loss_fn: Callable[..., Tensor] | None,
        name: str | None,
    ) -> None:
        """Checks what the kinds of heads have in common.

        Raises:
          TypeError: The weight column or the loss function is of another type.
          ValueError: The reduction is unknown, or loss_fn has other parameters.
        """
        check_weight_column(weight_column, task.where)
        old_reduction(loss_reduction)
        if loss_fn is not None:
            check_loss_fn(loss_fn, task.where)
        self._task = task
        self._weight_column = weight_column
        self._loss_reduction = loss_reduction
        self._loss_fn = loss_fn
        self._name = name

    @property
    def name(self) -> str | None:
        """Name of the head, or None."""
        return self._name

    @property
    def logits_dimension(self) -> int:
        """Last dimension of the logits."""
        return self._task.logits_dimension

    @property
    def loss_reduction(self) -> str:
        """Reduction of the examples' losses, as it was given."""
        return self._loss_reduction

    def loss(
        self,
        labels: Nest,
        logits: Nest,
        features: Mapping[str, Any] | None = None,
        mode: str | None = None,
        regularization_losses: Sequence[Tensor] | None = None,
    ) -> Tensor:
        """Computes the training loss, a scalar. See `Head.loss`."""
        del mode
        with v1.name_scope("losses"):
            converted, losses, weights = self._losses_and_weights(
                labels, self._logits(logits), features
            )
            loss = reduced_loss(losses, weights, self._loss_reduction)
        name_losses(converted, losses, weights, loss)
        if not regularization_losses:
            return loss
        with v1.name_scope("losses"):
            return loss + total_regularization(regularization_losses)

    def average_loss(
        self, labels: Nest, logits: Nest, features: Mapping[str, Any] | None = None
    ) -> Tensor:
        """Returns Σ w·l / Σ w of the examples' losses."""
        with v1.name_scope("losses"):
            losses, weights = self._losses_and_weights(labels, self._logits(logits), features)[1:]
            return reduced_loss(losses, weights, Reduction.MEAN)

    def predictions(self, logits: Nest, keys: Sequence[str] | None = None) -> dict[Any, Tensor]:
        """Computes predictions by their keys.

        Raises:
          ValueError: A key is unknown, or the logits have a wrong shape.
        """
        with v1.name_scope("predictions"):
            found = self._task.predictions(self._logits(logits))
            name_predictions(found)
        unknown = sorted(set(keys or ()) - set(found))
        if unknown:
            raise ValueError(
                f"Cannot compute the predictions {unknown} of {self._task.where}: its predictions "
                f"are {list(found)}. Choose of these, or leave keys out for all."
            )
        return {key: value for key, value in found.items() if not keys or key in keys}

    def metrics(self, regularization_losses: Sequence[Tensor] | None = None) -> dict[str, Any]:
        """Makes the metric objects by their keys. See `Head.metrics`."""
        measures = {each.key: each.measure for each in self._task.metrics()}
        if regularization_losses:
            measures[REGULARIZATION_LOSS_KEY] = batch_mean()
        with v1.name_scope("metrics"):
            return {
                keyed(key, self._name): Metric(key, measure) for key, measure in measures.items()
            }

    def update_metrics(
        self,
        eval_metrics: dict[str, Any],
        features: Mapping[str, Any] | None,
        logits: Nest,
        labels: Nest,
        mode: str | None = None,
        regularization_losses: Sequence[Tensor] | None = None,
    ) -> dict[str, Any]:
        """Adds a batch to metric objects, and returns them.

        Raises:
          ValueError: A metric is missing, or labels, logits or weights are wrong.
        """
        del mode
        wanted = [each.key for each in self._task.metrics()]
        wanted += [REGULARIZATION_LOSS_KEY] if regularization_losses else []
        missing = [key for key in wanted if keyed(key, self._name) not in eval_metrics]
        if missing:
            raise ValueError(
                f"Cannot update the metrics of {self._task.where}: {missing} are missing among "
                f"{sorted(eval_metrics)}. Pass what metrics(regularization_losses) returned."
            )
        with v1.name_scope("metrics"):
            converted = self._logits(logits)
            labels, losses, weights = self._losses_and_weights(labels, converted, features)
            examples = Examples(labels, self._task.predictions(converted), losses)
            for each in self._task.metrics():
                metric = eval_metrics[keyed(each.key, self._name)]
                metric.update_state(*each.values(examples), sample_weight=weights)
            if regularization_losses:
                total = total_regularization(regularization_losses)
                eval_metrics[keyed(REGULARIZATION_LOSS_KEY, self._name)].update_state(total)
        return eval_metrics

    def export_outputs(self, predictions: Mapping[Any, Tensor]) -> dict[str, ExportOutput]:
        """Makes the signatures of an exported model from all predictions."""
        return self._task.export_outputs(predictions)

    def curvature_losses(
        self, logits: Nest, features: Mapping[str, Any] | None = None
    ) -> tuple[CurvatureLoss, ...] | None:
        """Describes the loss for an optimizer of second order; None with an own loss_fn."""
        if self._task.kind is None or self._loss_fn is not None:
            return None
        logits = self._logits(logits)
        weights = self._weights(features, logits)
        name = self._name or "head"
        coefficient = self._task.coefficient
        return (CurvatureLoss(self._task.kind, logits, weights, coefficient, name),)

    def _logits(self, logits: Nest) -> Tensor:
        return checked_logits(logits, self._task.logits_dimension, self._task.where)

    def _weights(self, features: Any, logits: Tensor) -> Tensor:
        task = self._task
        return example_weights(
            features, self._weight_column, logits, task.weights_per_logit, task.where
        )

    def _losses_and_weights(
        self, labels: Nest, logits: Tensor, features: Any
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Returns the converted labels, the examples' losses, and their weights."""
        task = self._task
        converted = task.labels(labels, logits)
        weights = self._weights(features, logits)
        if self._loss_fn is None:
            return converted, task.losses(converted, logits), weights
        losses = call_loss_fn(
            self._loss_fn,
            converted,
            logits,
            features,
            self._loss_reduction,
            task.loss_dimension,
            task.where,
        )
        return converted, losses, weights
