"""MultiClassHead: one of several classes."""

import dataclasses
import typing
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import tensorflow as tf

from replicate._types import Tensor
from replicate.canned.heads.classes import check_n_classes, chosen_classes, class_signatures
from replicate.canned.heads.head import head_label
from replicate.canned.heads.labels import ONE_ID, dense_labels, in_range
from replicate.canned.heads.measures import accuracy, mean
from replicate.canned.heads.reductions import SUM_OVER_BATCH_SIZE
from replicate.canned.heads.task import Examples, Task, TaskMetric, average_loss
from replicate.canned.heads.task_head import TaskHead
from replicate.canned.heads.vocabulary import Vocabulary, make_vocabulary
from replicate.export.outputs import ExportOutput


@typing.final
class MultiClassHead(TaskHead):
    """Head of three or more classes that exclude each other, with one logit for each.

    The loss of an example is the softmax cross entropy. Labels are [D0, ..., DN] or
    [D0, ..., DN, 1]: integers in [0, n_classes), or strings of the vocabulary.

    Predictions: logits; probabilities [D0, ..., DN, n_classes]; class_ids int64 and classes string,
    [D0, ..., DN, 1]; all_class_ids int32 and all_classes string, [D0, n_classes].

    Metrics: average_loss, accuracy.
    """

    def __init__(
        self,
        n_classes: int,
        weight_column: Any = None,
        label_vocabulary: Sequence[str] | None = None,
        loss_reduction: str = SUM_OVER_BATCH_SIZE,
        loss_fn: Callable[..., Tensor] | None = None,
        name: str | None = None,
    ) -> None:
        """Makes the head.

        Args:
          n_classes: Number of classes, ≥ 3. BinaryClassHead is for 2.
          weight_column: Key of the feature with the weights, or a numeric column; None: all are 1.
          label_vocabulary: Names of the classes. Labels are then strings.
          loss_reduction: Reduction of the losses, of `tf.losses.Reduction` or v1's; not NONE.
          loss_fn: Function of labels (ids) and logits that returns the losses, [D0, ..., DN, 1].
          name: Last part of the keys of metrics and summaries.

        Raises:
          TypeError: The weight column or loss_fn is of another type.
          ValueError: Another argument is out of range or of another type.
        """
        where = head_label("MultiClassHead", name)
        check_n_classes(n_classes, 3, where, "BinaryClassHead is the head of two classes.")
        task = _MultiClassTask(
            where=where,
            logits_dimension=n_classes,
            kind="categorical",
            vocabulary=make_vocabulary(n_classes, label_vocabulary, where),
        )
        super().__init__(task, weight_column, loss_reduction, loss_fn, name)


@dataclasses.dataclass(frozen=True, kw_only=True)
class _MultiClassTask(Task):
    """Classification into several classes."""

    vocabulary: Vocabulary

    def labels(self, labels: Any, logits: Tensor) -> Tensor:
        labels = dense_labels(labels, logits, 1, self.where, ONE_ID)
        if self.vocabulary.names is None:
            if not labels.dtype.is_integer:
                raise ValueError(
                    f"Cannot compute the loss of {self.where}: labels are of type "
                    f"{labels.dtype.name}, but must be integers. Cast them, or pass "
                    "label_vocabulary for strings."
                )
            advice = "Raise n_classes, or correct the labels."
            ids = tf.cast(labels, tf.int64)
            return in_range(ids, self.logits_dimension - 1, self.where, advice)
        if labels.dtype != tf.string:
            raise ValueError(
                f"Cannot compute the loss of {self.where}: labels are of type "
                f"{labels.dtype.name}, but must be strings, since there is a label_vocabulary. "
                "Leave it out for ids of classes."
            )
        return self.vocabulary.ids(labels, self.where)

    def losses(self, labels: Tensor, logits: Tensor) -> Tensor:
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(
            labels=tf.squeeze(labels, -1), logits=logits
        )
        return tf.expand_dims(losses, -1)

    def predictions(self, logits: Tensor) -> dict[str, Tensor]:
        return {
            "logits": logits,
            "probabilities": tf.nn.softmax(logits),
            **chosen_classes(logits, self.vocabulary),
        }

    def metrics(self) -> list[TaskMetric]:
        def at_classes(examples: Examples) -> list[Tensor]:
            return [examples.labels, examples.predictions["class_ids"]]

        return [average_loss(mean()), TaskMetric("accuracy", accuracy(), at_classes)]

    def export_outputs(self, predictions: Mapping[str, Tensor]) -> dict[str, ExportOutput]:
        return class_signatures(predictions, predictions["all_classes"])
