"""MultiLabelHead: any number of several classes."""

import dataclasses
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import tensorflow as tf

from replicate._types import Tensor
from replicate.canned.heads.classes import (
    check_n_classes,
    checked_thresholds,
    class_signatures,
    threshold_metrics,
)
from replicate.canned.heads.head import head_label
from replicate.canned.heads.labels import dense_labels, given_labels, in_range
from replicate.canned.heads.measures import (
    Measure,
    SummationMethod,
    area,
    check_summation_method,
    mean,
)
from replicate.canned.heads.reductions import SUM_OVER_BATCH_SIZE
from replicate.canned.heads.task import Examples, Task, TaskMetric, average_loss
from replicate.canned.heads.task_head import TaskHead
from replicate.canned.heads.vocabulary import Vocabulary, make_vocabulary
from replicate.export.outputs import ExportOutput


@typing.final
class MultiLabelHead(TaskHead):
    """Head of classes that do not exclude each other, with one logit for each: its log-odds.

    The loss of an example is the mean over the classes of the sigmoid cross entropies. Labels are
    numbers in [0, 1], [D0, ..., DN, n_classes]: 1 for the classes of the example. Or they are a
    SparseTensor [D0, ..., DN, any] that lists the classes of each example: ids, or strings of the
    vocabulary.

    Predictions: logits; probabilities [D0, ..., DN, n_classes]; classes, all names, string
    [D0, n_classes].

    Metrics, over all pairs of example and class: average_loss, auc, auc_precision_recall, and
    accuracy, precision and recall /positive_threshold_T for each threshold T. For each chosen class
    C: probability_mean/C, auc/C, auc_precision_recall/C, where C is "class" and the id, or the name
    in the vocabulary.
    """

    def __init__(
        self,
        n_classes: int,
        weight_column: Any = None,
        thresholds: Iterable[float] | None = None,
        label_vocabulary: Sequence[str] | None = None,
        loss_reduction: str = SUM_OVER_BATCH_SIZE,
        loss_fn: Callable[..., Tensor] | None = None,
        classes_for_class_based_metrics: Sequence[int | str] | None = None,
        name: str | None = None,
        *,
        auc_summation_method: SummationMethod = "careful_interpolation",
    ) -> None:
        """Makes the head.

        Args:
          n_classes: Number of classes, ≥ 2.
          weight_column: Key of the feature with the weights, or a numeric column; None: all are 1.
          thresholds: Probabilities in (0, 1) for which there are further metrics.
          label_vocabulary: Names of the classes. Sparse labels may then be strings.
          loss_reduction: Reduction of the losses, of `tf.losses.Reduction` or v1's; not NONE.
          loss_fn: Function of labels, float32 [D0, ..., DN, n_classes], and logits that returns the
            losses, [D0, ..., DN, 1].
          classes_for_class_based_metrics: Ids or names of the classes with metrics of their own.
          name: Last part of the keys of metrics and summaries.
          auc_summation_method: Method of auc_precision_recall: "careful_interpolation", or
            "trapezoidal" as in TensorFlow 1.

        Raises:
          TypeError: The weight column or loss_fn is of another type.
          ValueError: Another argument is out of range or of another type.
        """
        where = head_label("MultiLabelHead", name)
        check_n_classes(n_classes, 2, where, "BinaryClassHead is the head of one yes or no.")
        check_summation_method(auc_summation_method, where)
        vocabulary = make_vocabulary(n_classes, label_vocabulary, where)
        task = _MultiLabelTask(
            where=where,
            logits_dimension=n_classes,
            kind="multi_bernoulli",
            coefficient=1 / n_classes,
            thresholds=checked_thresholds(thresholds, where),
            vocabulary=vocabulary,
            auc_summation_method=auc_summation_method,
            chosen=tuple(
                _class_id(each, vocabulary, where) for each in classes_for_class_based_metrics or ()
            ),
        )
        super().__init__(task, weight_column, loss_reduction, loss_fn, name)


@dataclasses.dataclass(frozen=True, kw_only=True)
class _MultiLabelTask(Task):
    """Classification into classes that do not exclude each other.

    `chosen` are the ids of the classes with metrics of their own.
    """

    thresholds: tuple[float, ...]
    vocabulary: Vocabulary
    auc_summation_method: SummationMethod
    chosen: tuple[int, ...]

    def labels(self, labels: Any, logits: Tensor) -> Tensor:
        labels = given_labels(labels, self.where)
        if isinstance(labels, tf.SparseTensor):
            labels = self._indicator(labels)
        elif labels.dtype == tf.string:
            raise ValueError(
                f"Cannot compute the loss of {self.where}: labels are a dense Tensor of strings. "
                "Pass the names of each example's classes as a SparseTensor, or 0 and 1 for each "
                "class."
            )
        advice = "Pass 1 for the classes of an example, 0 for others, or ids in a SparseTensor."
        labels = in_range(tf.cast(labels, tf.float32), 1, self.where, advice)
        return dense_labels(labels, logits, self.logits_dimension, self.where, advice)

    def _indicator(self, labels: tf.SparseTensor) -> Tensor:
        """Returns True for the classes that are listed, bool [D0, ..., DN, n_classes]."""
        ids = labels.values
        if labels.dtype == tf.string and self.vocabulary.names is not None:
            ids = self.vocabulary.ids(ids, self.where)
        elif not labels.dtype.is_integer:
            raise ValueError(
                f"Cannot compute the loss of {self.where}: labels are a SparseTensor of type "
                f"{labels.dtype.name}, but must be integers, or strings with a label_vocabulary. "
                "Convert them in input_fn."
            )
        advice = "They are ids of classes. Raise n_classes, or correct the labels."
        ids = in_range(tf.cast(ids, tf.int64), self.logits_dimension - 1, self.where, advice)
        sparse = tf.SparseTensor(labels.indices, ids, labels.dense_shape)
        return tf.sparse.to_indicator(sparse, self.logits_dimension)

    def losses(self, labels: Tensor, logits: Tensor) -> Tensor:
        losses = tf.nn.sigmoid_cross_entropy_with_logits(labels=labels, logits=logits)
        return tf.reduce_mean(losses, axis=-1, keepdims=True)

    def predictions(self, logits: Tensor) -> dict[str, Tensor]:
        return {
            "logits": logits,
            "probabilities": tf.sigmoid(logits),
            "classes": self.vocabulary.all_names(logits),
        }

    def metrics(self) -> list[TaskMetric]:
        def of_all(examples: Examples) -> list[Tensor]:
            return [examples.labels, examples.predictions["probabilities"]]

        return [
            average_loss(mean()),
            TaskMetric("auc", area("ROC"), of_all),
            TaskMetric("auc_precision_recall", self._precision_recall_area(), of_all),
            *threshold_metrics(self.thresholds, "probabilities"),
            *(metric for class_id in self.chosen for metric in self._class_metrics(class_id)),
        ]

    def _class_metrics(self, class_id: int) -> list[TaskMetric]:
        names = self.vocabulary.names
        label = f"class{class_id}" if names is None else names[class_id]

        def of_class(examples: Examples) -> list[Tensor]:
            both = examples.labels, examples.predictions["probabilities"]
            return [each[..., class_id : class_id + 1] for each in both]

        return [
            TaskMetric(f"probability_mean/{label}", mean(), lambda each: of_class(each)[1:]),
            TaskMetric(f"auc/{label}", area("ROC"), of_class),
            TaskMetric(f"auc_precision_recall/{label}", self._precision_recall_area(), of_class),
        ]

    def _precision_recall_area(self) -> Measure:
        return area("PR", self.auc_summation_method)

    def export_outputs(self, predictions: Mapping[str, Tensor]) -> dict[str, ExportOutput]:
        return class_signatures(predictions, predictions["classes"])


def _class_id(chosen: int | str, vocabulary: Vocabulary, where: str) -> int:
    """Returns the id of a class that is given by its id or name."""
    if isinstance(chosen, str) and chosen in (vocabulary.names or ()):
        return (vocabulary.names or ()).index(chosen)
    if not isinstance(chosen, str) and 0 <= chosen < vocabulary.n_classes:
        return chosen
    names = "" if vocabulary.names is None else f", or names of {list(vocabulary.names)}"
    raise ValueError(
        f"Cannot make {where}: classes_for_class_based_metrics must be ids in [0, "
        f"{vocabulary.n_classes - 1}]{names}, got {chosen!r}. Give label_vocabulary to use names."
    )
