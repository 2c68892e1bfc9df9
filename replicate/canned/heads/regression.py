"""Heads of regression: squared error, counts, and probabilities.

The link of a generalized linear model maps the mean of the labels to the logits; its inverse maps
the logits to predictions.
"""

import dataclasses
import functools
import typing
from collections.abc import Callable, Mapping
from typing import Any

import tensorflow as tf

from replicate._types import Tensor
from replicate.canned.heads.classes import PREDICT, REGRESSION
from replicate.canned.heads.curvature import LossKind
from replicate.canned.heads.head import head_label
from replicate.canned.heads.labels import dense_labels, in_range
from replicate.canned.heads.measures import mean
from replicate.canned.heads.reductions import SUM_OVER_BATCH_SIZE
from replicate.canned.heads.task import Task, TaskMetric, average_loss
from replicate.canned.heads.task_head import TaskHead
from replicate.export.outputs import (
    DEFAULT_SIGNATURE,
    ExportOutput,
    PredictOutput,
    RegressionOutput,
)


@typing.final
class RegressionHead(TaskHead):
    """Head of one or more numbers, by default with the squared error of each as the loss.

    Labels are [D0, ..., DN, label_dimension], of any numeric type; with one dimension also
    [D0, ..., DN]. Weights may have that shape, too.

    Predictions: predictions [D0, ..., DN, label_dimension]; with inverse_link_fn also logits.

    Metrics: average_loss, prediction/mean, label/mean, over all examples and dimensions.
    """

    def __init__(
        self,
        label_dimension: int = 1,
        weight_column: Any = None,
        loss_reduction: str = SUM_OVER_BATCH_SIZE,
        loss_fn: Callable[..., Tensor] | None = None,
        inverse_link_fn: Callable[[Tensor], Tensor] | None = None,
        name: str | None = None,
    ) -> None:
        """Makes the head.

        Args:
          label_dimension: Numbers for each example, ≥ 1.
          weight_column: Key of the feature with the weights, or a numeric column; None: all are 1.
          loss_reduction: Reduction of the losses, of `tf.losses.Reduction` or v1's; not NONE.
          loss_fn: Function of labels and logits that returns [D0, ..., DN, label_dimension] losses.
          inverse_link_fn: Function from logits to predictions. None: they are equal. The default
            loss compares the labels with the logits.
          name: Last part of the keys of metrics and summaries.

        Raises:
          TypeError: The weight column, loss_fn or inverse_link_fn is of another type.
          ValueError: Another argument is out of range.
        """
        where = head_label("RegressionHead", name)
        if inverse_link_fn is not None and not callable(inverse_link_fn):
            raise TypeError(
                f"Cannot make {where}: inverse_link_fn must be a function of the logits, got "
                f"{inverse_link_fn!r}. Pass the function itself, such as tf.exp."
            )
        task = _task(
            where,
            label_dimension,
            loss=lambda labels, logits: tf.math.squared_difference(logits, labels),
            inverse_link=inverse_link_fn,
            kind="squared_error",
            coefficient=1 / max(label_dimension, 1),
        )
        super().__init__(task, weight_column, loss_reduction, loss_fn, name)


@typing.final
class PoissonRegressionHead(TaskHead):
    """Head of counts: Poisson regression, whose logits are logarithms of the predicted means.

    The loss is the negative log-likelihood exp(logit) − label·logit, with Stirling's approximation
    of log(label!) if compute_full_loss. Labels, weights and metrics are those of RegressionHead.

    Predictions: predictions = exp(logits), and logits.
    """

    def __init__(
        self,
        label_dimension: int = 1,
        weight_column: Any = None,
        loss_reduction: str = SUM_OVER_BATCH_SIZE,
        compute_full_loss: bool = True,
        name: str | None = None,
    ) -> None:
        """Makes the head.

        Args:
          label_dimension: Numbers for each example, ≥ 1.
          weight_column: Key of the feature with the weights, or a numeric column; None: all are 1.
          loss_reduction: Reduction of the losses, of `tf.losses.Reduction` or v1's; not NONE.
          compute_full_loss: True to add the term that depends on the labels only.
          name: Last part of the keys of metrics and summaries.

        Raises:
          TypeError: The weight column is of another type.
          ValueError: Another argument is out of range.
        """
        task = _task(
            head_label("PoissonRegressionHead", name),
            label_dimension,
            loss=functools.partial(_poisson_loss, compute_full_loss=compute_full_loss),
            inverse_link=tf.exp,
        )
        super().__init__(task, weight_column, loss_reduction, None, name)


@typing.final
class LogisticRegressionHead(TaskHead):
    """Head of one probability: the loss is the sigmoid cross entropy.

    Labels are numbers in [0, 1], [D0, ..., DN] or [D0, ..., DN, 1]. Unlike BinaryClassHead, this
    head predicts no classes, and its metrics are those of RegressionHead.

    Predictions: predictions = σ(logits), and logits.
    """

    def __init__(
        self,
        weight_column: Any = None,
        loss_reduction: str = SUM_OVER_BATCH_SIZE,
        name: str | None = None,
    ) -> None:
        """Makes the head.

        Args:
          weight_column: Key of the feature with the weights, or a numeric column; None: all are 1.
          loss_reduction: Reduction of the losses, of `tf.losses.Reduction` or v1's; not NONE.
          name: Last part of the keys of metrics and summaries.

        Raises:
          TypeError: The weight column is of another type.
          ValueError: The reduction is unknown.
        """
        task = _task(
            head_label("LogisticRegressionHead", name),
            label_dimension=1,
            loss=tf.nn.sigmoid_cross_entropy_with_logits,
            inverse_link=tf.sigmoid,
            largest_label=1,
            kind="multi_bernoulli",
        )
        super().__init__(task, weight_column, loss_reduction, None, name)


@dataclasses.dataclass(frozen=True, kw_only=True)
class _RegressionTask(Task):
    """Regression with any loss and link.

    Attributes:
      loss: Function from labels and logits to the losses, all of one shape.
      inverse_link: Function from logits to predictions, or None.
      largest_label: Largest label, if labels must be in [0, largest_label]; else None.
    """

    loss: Callable[[Tensor, Tensor], Tensor]
    inverse_link: Callable[[Tensor], Tensor] | None
    largest_label: int | None

    def labels(self, labels: Any, logits: Tensor) -> Tensor:
        advice = (
            f"Give each example as many labels as label_dimension says, {self.logits_dimension}, "
            "or change label_dimension."
        )
        labels = dense_labels(labels, logits, self.logits_dimension, self.where, advice)
        if labels.dtype == tf.string:
            raise ValueError(
                f"Cannot compute the loss of {self.where}: labels are strings, but must be "
                "numbers. Convert them with tf.strings.to_number, or use a classification head."
            )
        labels = tf.cast(labels, tf.float32)
        if self.largest_label is None:
            return labels
        return in_range(labels, self.largest_label, self.where, "They are probabilities.")

    def losses(self, labels: Tensor, logits: Tensor) -> Tensor:
        return self.loss(labels, logits)

    def predictions(self, logits: Tensor) -> dict[str, Tensor]:
        if self.inverse_link is None:
            return {"predictions": logits}
        return {"predictions": self.inverse_link(logits), "logits": logits}

    def metrics(self) -> list[TaskMetric]:
        return [
            average_loss(mean()),
            TaskMetric("prediction/mean", mean(), lambda each: [each.predictions["predictions"]]),
            TaskMetric("label/mean", mean(), lambda each: [each.labels]),
        ]

    def export_outputs(self, predictions: Mapping[str, Tensor]) -> dict[str, ExportOutput]:
        output = RegressionOutput(predictions["predictions"])
        return {
            DEFAULT_SIGNATURE: output,
            REGRESSION: output,
            PREDICT: PredictOutput(predictions),
        }


def _task(
    where: str,
    label_dimension: int,
    loss: Callable[[Tensor, Tensor], Tensor],
    inverse_link: Callable[[Tensor], Tensor] | None,
    largest_label: int | None = None,
    kind: LossKind | None = None,
    coefficient: float = 1.0,
) -> _RegressionTask:
    if label_dimension < 1:
        raise ValueError(
            f"Cannot make {where}: label_dimension must be ≥ 1, got {label_dimension!r}. It is the "
            "number of labels of each example."
        )
    return _RegressionTask(
        where=where,
        logits_dimension=label_dimension,
        loss_dimension=label_dimension,
        weights_per_logit=True,
        kind=kind,
        coefficient=coefficient,
        loss=loss,
        inverse_link=inverse_link,
        largest_label=largest_label,
    )


def _poisson_loss(labels: Tensor, logits: Tensor, compute_full_loss: bool) -> Tensor:
    return tf.nn.log_poisson_loss(
        targets=labels, log_input=logits, compute_full_loss=compute_full_loss
    )
