"""Heads of TensorFlow 1, and the functions by which heads of libraries make their specs."""

import abc
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import tensorflow as tf

from replicate._types import Nest, Operation, Spec, Tensor, Variable
from replicate.canned.canned_model import classifier_head
from replicate.canned.heads import BinaryClassHead, MultiClassHead
from replicate.canned.heads import Head as Head2
from replicate.canned.heads.classes import CLASSIFICATION, PREDICT, REGRESSION
from replicate.canned.heads.head import REGULARIZATION_LOSS_KEY, keyed
from replicate.canned.heads.labels import checked_logits
from replicate.canned.heads.reductions import total_regularization
from replicate.canned.heads.train_ops import make_train_op, write_summaries
from replicate.canned.heads.vocabulary import Vocabulary
from replicate.export.outputs import DEFAULT_SIGNATURE, ClassificationOutput
from replicate.spec import LOSS_METRIC_KEY

v1 = tf.compat.v1

DEFAULT_SERVING_KEY = DEFAULT_SIGNATURE
CLASSIFY_SERVING_KEY = CLASSIFICATION
REGRESS_SERVING_KEY = REGRESSION
PREDICT_SERVING_KEY = PREDICT


class Head(abc.ABC):
    """Top of a model, with the abstract members of TensorFlow 1.

    Own heads derive from it. The heads of `replicate` count as its instances.
    """

    @property
    @abc.abstractmethod
    def name(self) -> str | None:
        """Name of the head, or None."""

    @property
    @abc.abstractmethod
    def logits_dimension(self) -> int:
        """Last dimension of the logits."""

    @abc.abstractmethod
    def create_loss(self, features: Any, mode: str, logits: Nest, labels: Nest) -> Any:
        """Computes the losses of the labels.

        Args:
          features: Features of the model, for weights.
          mode: One of `ModeKeys`.
          logits: Logits [D0, ..., DN, logits_dimension].
          labels: Labels of the batch.
        """

    @abc.abstractmethod
    def create_estimator_spec(
        self,
        features: Any,
        mode: str,
        logits: Nest,
        labels: Nest = None,
        optimizer: Any = None,
        train_op_fn: Callable[[Tensor], Operation] | None = None,
        regularization_losses: Sequence[Tensor] | None = None,
    ) -> Spec:
        """Makes the spec that a model_fn returns; arguments as for `replicate.Head`."""


_Head2: Any = Head2
Head.register(_Head2)


def binary_logistic_or_multi_class_head(
    n_classes: int,
    weight_column: Any,
    label_vocabulary: Sequence[str] | None,
    loss_reduction: str,
    loss_fn: Callable[..., Tensor] | None = None,
) -> Head2:
    """Makes the head of a classifier: a BinaryClassHead for two classes, else a MultiClassHead.

    Raises:
      ValueError: n_classes is less than 2, or an argument is out of range.
    """
    if loss_fn is None:
        return classifier_head(n_classes, weight_column, label_vocabulary, loss_reduction)
    if n_classes == 2:
        return BinaryClassHead(weight_column, None, label_vocabulary, loss_reduction, loss_fn)
    return MultiClassHead(n_classes, weight_column, label_vocabulary, loss_reduction, loss_fn)


def check_logits_final_dim(logits: Any, expected_logits_dimension: int) -> Tensor:
    """Returns logits as float32, of rank 2 at least and of this last dimension.

    Raises:
      ValueError: The rank or the last dimension is known and wrong.
    """
    return checked_logits(logits, expected_logits_dimension, "a head")


def all_class_ids(logits: Tensor, n_classes: int) -> Tensor:
    """Returns the ids of all classes for each row of logits, int32 [batch, n_classes]."""
    return Vocabulary(n_classes).all_ids(logits)


def all_classes(
    logits: Tensor, n_classes: int, label_vocabulary: Sequence[str] | None = None
) -> Tensor:
    """Returns the names of all classes for each row of logits, string [batch, n_classes]."""
    return _vocabulary(n_classes, label_vocabulary).all_names(logits)


def classification_output(
    scores: Tensor, n_classes: int, label_vocabulary: Sequence[str] | None = None
) -> ClassificationOutput:
    """Makes the signature of a classifier with scores [batch, n_classes]."""
    names = all_classes(scores, n_classes, label_vocabulary)
    return ClassificationOutput(scores=scores, classes=names)


def create_eval_metrics_tuple(
    fn: Callable[..., Any], kwargs: Mapping[str, Any]
) -> tuple[Callable[..., Any], dict[str, Any]]:
    """Returns a function of metrics and its arguments, those that are not None."""
    return fn, {name: value for name, value in kwargs.items() if value is not None}


def create_estimator_spec_train_op(
    head_name: str | None,
    optimizer: Any = None,
    trainable_variables: Sequence[Variable] | None = None,
    train_op_fn: Callable[[Tensor], Operation] | None = None,
    update_ops: Sequence[Operation] | None = None,
    regularized_training_loss: Tensor | None = None,
    loss_reduction: str | None = None,
) -> Operation:
    """Makes the training operation of a head, as `replicate.Head.create_estimator_spec` does.

    Raises:
      ValueError: Not exactly one of optimizer and train_op_fn is given, or one is no such thing.
    """
    del loss_reduction
    return make_train_op(
        regularized_training_loss,
        optimizer,
        trainable_variables,
        train_op_fn,
        update_ops,
        f"head {head_name!r}",
    )


def create_estimator_spec_summary(
    regularized_training_loss: Tensor,
    regularization_losses: Sequence[Tensor] | None = None,
    summary_key_fn: Callable[[str], str] | None = None,
) -> None:
    """Writes the summaries of a head: its loss, and the sum of the regularization losses."""
    scalars = {LOSS_METRIC_KEY: regularized_training_loss}
    if regularization_losses:
        scalars[REGULARIZATION_LOSS_KEY] = total_regularization(regularization_losses)
    key_of = summary_key_fn or str
    write_summaries({key_of(key): value for key, value in scalars.items()})


def summary_key(head_name: str | None, val: str) -> str:
    """Returns the key of a metric or summary of a head: the head's name comes last."""
    return keyed(val, head_name)


def _vocabulary(n_classes: int, names: Sequence[str] | None) -> Vocabulary:
    return Vocabulary(n_classes, tuple(names) if names else None)
