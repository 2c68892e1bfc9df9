"""BinaryClassHead: two classes, one logit."""

import dataclasses
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import tensorflow as tf

from replicate._types import Tensor
from replicate.canned.heads.classes import (
    REGRESSION,
    checked_thresholds,
    chosen_classes,
    class_signatures,
    threshold_metrics,
)
from replicate.canned.heads.head import head_label
from replicate.canned.heads.labels import ONE_ID, dense_labels, in_range
from replicate.canned.heads.measures import (
    SummationMethod,
    accuracy,
    area,
    check_summation_method,
    majority,
    mean,
    precision,
    recall,
)
from replicate.canned.heads.reductions import SUM_OVER_BATCH_SIZE
from replicate.canned.heads.task import Examples, Task, TaskMetric, average_loss
from replicate.canned.heads.task_head import TaskHead
from replicate.canned.heads.vocabulary import Vocabulary, make_vocabulary
from replicate.export.outputs import ExportOutput, RegressionOutput


@typing.final
class BinaryClassHead(TaskHead):
    """Head of two classes, with one logit: the log-odds of class 1.

    The loss of an example is the sigmoid cross entropy. Labels are [D0, ..., DN] or
    [D0, ..., DN, 1]: numbers in [0, 1], which may be probabilities, or strings of the vocabulary.

    Predictions: logits; logistic, the probability of class 1, [D0, ..., DN, 1]; probabilities
    [D0, ..., DN, 2]; class_ids int64 and classes string, [D0, ..., DN, 1]; all_class_ids int32 and
    all_classes string, [D0, 2].

    Metrics: average_loss, accuracy, precision, recall, prediction/mean, label/mean,
    accuracy_baseline (of the better constant prediction), auc, auc_precision_recall, and accuracy,
    precision and recall /positive_threshold_T for each threshold T.
    """

    def __init__(
        self,
        weight_column: Any = None,
        thresholds: Iterable[float] | None = None,
        label_vocabulary: Sequence[str] | None = None,
        loss_reduction: str = SUM_OVER_BATCH_SIZE,
        loss_fn: Callable[..., Tensor] | None = None,
        name: str | None = None,
        *,
        auc_summation_method: SummationMethod = "careful_interpolation",
    ) -> None:
        """Makes the head.

        Args:
          weight_column: Key of the feature with the weights, or a numeric column; None: all are 1.
          thresholds: Probabilities in (0, 1) for which there are further metrics.
          label_vocabulary: Names of the two classes. Labels are then strings.
          loss_reduction: Reduction of the losses, of `tf.losses.Reduction` or v1's; not NONE.
          loss_fn: Function of labels and logits that returns the losses, [D0, ..., DN, 1].
          name: Last part of the keys of metrics and summaries.
          auc_summation_method: Method of auc_precision_recall: "careful_interpolation", or
            "trapezoidal" as in TensorFlow 1.

        Raises:
          TypeError: The weight column or loss_fn is of another type.
          ValueError: Another argument is out of range or of another type.
        """
        where = head_label("BinaryClassHead", name)
        check_summation_method(auc_summation_method, where)
        task = _BinaryTask(
            where=where,
            logits_dimension=1,
            kind="multi_bernoulli",
            thresholds=checked_thresholds(thresholds, where),
            vocabulary=make_vocabulary(2, label_vocabulary, where),
            auc_summation_method=auc_summation_method,
        )
        super().__init__(task, weight_column, loss_reduction, loss_fn, name)


@dataclasses.dataclass(frozen=True, kw_only=True)
class _BinaryTask(Task):
    """Classification into two classes."""

    thresholds: tuple[float, ...]
    vocabulary: Vocabulary
    auc_summation_method: SummationMethod

    def labels(self, labels: Any, logits: Tensor) -> Tensor:
        labels = dense_labels(labels, logits, 1, self.where, ONE_ID)
        if (labels.dtype == tf.string) != (self.vocabulary.names is not None):
            wanted = "numbers in [0, 1]" if self.vocabulary.names is None else "strings"
            raise ValueError(
                f"Cannot compute the loss of {self.where}: labels are of type {labels.dtype.name}, "
                f"but must be {wanted}. Pass label_vocabulary for strings, and only for strings."
            )
        if labels.dtype == tf.string:
            return tf.cast(self.vocabulary.ids(labels, self.where), tf.float32)
        advice = "For more than two classes, use MultiClassHead, or set n_classes."
        return in_range(tf.cast(labels, tf.float32), 1, self.where, advice)

    def losses(self, labels: Tensor, logits: Tensor) -> Tensor:
        return tf.nn.sigmoid_cross_entropy_with_logits(labels=labels, logits=logits)

    def predictions(self, logits: Tensor) -> dict[str, Tensor]:
        class_logits = tf.concat([tf.zeros_like(logits), logits], axis=-1)
        return {
            "logits": logits,
            "logistic": tf.sigmoid(logits),
            "probabilities": tf.nn.softmax(class_logits),
            **chosen_classes(class_logits, self.vocabulary),
        }

    def metrics(self) -> list[TaskMetric]:
        def at_classes(examples: Examples) -> list[Tensor]:
            return [examples.labels, examples.predictions["class_ids"]]

        def at_probabilities(examples: Examples) -> list[Tensor]:
            return [examples.labels, examples.predictions["logistic"]]

        def of_labels(examples: Examples) -> list[Tensor]:
            return [examples.labels]

        return [
            average_loss(mean()),
            TaskMetric("accuracy", accuracy(), at_classes),
            TaskMetric("precision", precision(), at_classes),
            TaskMetric("recall", recall(), at_classes),
            TaskMetric("prediction/mean", mean(), lambda each: [each.predictions["logistic"]]),
            TaskMetric("label/mean", mean(), of_labels),
            TaskMetric("accuracy_baseline", majority(), of_labels),
            TaskMetric("auc", area("ROC"), at_probabilities),
            TaskMetric(
                "auc_precision_recall", area("PR", self.auc_summation_method), at_probabilities
            ),
            *threshold_metrics(self.thresholds, "logistic"),
        ]

    def export_outputs(self, predictions: Mapping[str, Tensor]) -> dict[str, ExportOutput]:
        return {
            **class_signatures(predictions, predictions["all_classes"]),
            REGRESSION: RegressionOutput(predictions["logistic"]),
        }
