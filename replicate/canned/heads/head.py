"""Head: the top of a model, from its logits to loss, training, metrics and exports.

`Head` is the interface. It owns only the order in which a head's parts make an EstimatorSpec; the
ready-made heads are in the modules beside it.
"""

import abc
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import tensorflow as tf

from replicate._types import Nest, Operation, Tensor, Variable
from replicate.canned.heads.curvature import CurvatureLoss
from replicate.canned.heads.metric_objects import scope_name
from replicate.canned.heads.reductions import (
    Reduction,
    old_reduction,
    told,
    total_regularization,
)
from replicate.canned.heads.tensor_names import name_tensor
from replicate.canned.heads.train_ops import make_train_op, write_summaries
from replicate.export.outputs import DEFAULT_SIGNATURE, ExportOutput, PredictOutput
from replicate.spec import AVERAGE_LOSS_METRIC_KEY, LOSS_METRIC_KEY, EstimatorSpec, ModeKeys

v1 = tf.compat.v1

REGULARIZATION_LOSS_KEY = "regularization_loss"
"""Key of the sum of the regularization losses: in metrics its mean over batches, in summaries."""


class Head(abc.ABC):
    """Top of a model: loss, predictions, metrics, training and exports, computed from logits.

    A model_fn computes logits with `logits_dimension` numbers for each example, and returns
    `create_estimator_spec(features, mode, logits, labels, optimizer=…)`. The other methods also
    work eagerly. Own heads derive from this class, define the abstract members, and
    may define `create_estimator_spec`, too; the estimators use only that and `logits_dimension`.
    """

    @property
    @abc.abstractmethod
    def name(self) -> str | None:
        """Name of the head, the last part of the keys of its metrics and summaries; or None."""

    @property
    @abc.abstractmethod
    def logits_dimension(self) -> int:
        """Last dimension of the logits."""

    @property
    @abc.abstractmethod
    def loss_reduction(self) -> str:
        """Reduction of the examples' losses, of `tf.losses.Reduction` or the one of TF 1."""

    @abc.abstractmethod
    def loss(
        self,
        labels: Nest,
        logits: Nest,
        features: Mapping[str, Any] | None = None,
        mode: str | None = None,
        regularization_losses: Sequence[Tensor] | None = None,
    ) -> Tensor:
        """Computes the training loss, a scalar.

        Args:
          labels: Labels of the batch.
          logits: Logits [D0, ..., DN, logits_dimension].
          features: Features of the model, for weights.
          mode: One of `ModeKeys`. The ready-made heads ignore it.
          regularization_losses: Scalars that are added to the loss.
        """

    @abc.abstractmethod
    def predictions(self, logits: Nest, keys: Sequence[str] | None = None) -> dict[Any, Tensor]:
        """Computes predictions by their keys.

        Args:
          logits: Logits [D0, ..., DN, logits_dimension].
          keys: Keys of the wanted predictions. None or empty: all.
        """

    @abc.abstractmethod
    def metrics(self, regularization_losses: Sequence[Tensor] | None = None) -> dict[str, Any]:
        """Makes the metric objects by their keys.

        Args:
          regularization_losses: Scalars that are added to the loss; None if there are none.
        """

    @abc.abstractmethod
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

        Args:
          eval_metrics: What `metrics` made.
          features: Features of the model, for weights.
          logits: Logits [D0, ..., DN, logits_dimension].
          labels: Labels of the batch.
          mode: One of `ModeKeys`. The ready-made heads ignore it.
          regularization_losses: As `metrics` got them.
        """

    def export_outputs(self, predictions: Mapping[Any, Tensor]) -> dict[str, ExportOutput]:
        """Makes the signatures of an exported model: by default one, with all predictions."""
        return {DEFAULT_SIGNATURE: PredictOutput(predictions)}

    def average_loss(
        self, labels: Nest, logits: Nest, features: Mapping[str, Any] | None = None
    ) -> Tensor | None:
        """Returns the weighted mean of the examples' losses; None if the head cannot tell it."""
        del labels, logits, features
        return None

    def curvature_losses(
        self, logits: Nest, features: Mapping[str, Any] | None = None
    ) -> tuple[CurvatureLoss, ...] | None:
        """Describes the loss for an optimizer of second order.

        With the reduction SUM the training loss is larger than the described one by the number of
        examples: see `loss_reduction`.

        Args:
          logits: Logits [D0, ..., DN, logits_dimension].
          features: Features of the model, for weights.

        Returns:
          Records whose sum is the training loss without regularization, or None if the loss is not
          known to be a negative log-likelihood of such a kind.
        """
        del logits, features
        return None

    def create_estimator_spec(
        self,
        features: Mapping[str, Any] | None,
        mode: str,
        logits: Nest,
        labels: Nest = None,
        optimizer: Any = None,
        trainable_variables: Sequence[Variable] | None = None,
        train_op_fn: Callable[[Tensor], Operation] | None = None,
        update_ops: Sequence[Operation] | None = None,
        regularization_losses: Sequence[Tensor] | None = None,
    ) -> EstimatorSpec:
        """Makes the spec that a model_fn returns.

        Args:
          features: Features of the model, for weights. Unused in PREDICT.
          mode: One of `ModeKeys`.
          logits: Logits [D0, ..., DN, logits_dimension].
          labels: Labels of the batch; unused in PREDICT.
          optimizer: `tf.compat.v1.train.Optimizer`, such as a TowerOptimizer. Its `minimize` gets
            the loss and the global step. In TRAIN, give this or `train_op_fn`.
          trainable_variables: List or tuple of the variables that the optimizer changes. None: all
            trainable variables of the graph.
          train_op_fn: Function from the loss to the training operation, which should advance the
            global step.
          update_ops: List or tuple of operations that run in every training step, besides those in
            the collection UPDATE_OPS.
          regularization_losses: List of scalars that are added to the loss.

        Returns:
          In PREDICT, a spec with predictions and export outputs; in EVAL with predictions, loss and
          metrics; in TRAIN with predictions, loss and train_op, which is what the optimizer or
          train_op_fn returned unless there are update operations.

        Raises:
          ValueError: The mode is unknown, an argument is of the wrong type or shape, or not exactly
            one of optimizer and train_op_fn is given in TRAIN.
        """
        with v1.name_scope(scope_name(self.name or "head")):
            name_tensor("logits", logits)
            predictions = self.predictions(logits)
            if mode == ModeKeys.PREDICT:
                exports = self.export_outputs(predictions)
                return EstimatorSpec(mode, predictions, export_outputs=exports)
            loss = self.loss(labels, logits, features, mode, regularization_losses)
            loss = told(loss, self.loss_reduction)
            if mode != ModeKeys.TRAIN:
                metrics = self.update_metrics(
                    self.metrics(regularization_losses=regularization_losses),
                    features,
                    logits,
                    labels,
                    regularization_losses=regularization_losses,
                )
                return EstimatorSpec(mode, predictions, loss, eval_metric_ops=metrics)
            scalars = {LOSS_METRIC_KEY: loss}
            if regularization_losses:
                scalars[REGULARIZATION_LOSS_KEY] = total_regularization(regularization_losses)
            if old_reduction(self.loss_reduction) == Reduction.SUM:
                average_loss = self.average_loss(labels, logits, features)
                if average_loss is not None:
                    scalars[AVERAGE_LOSS_METRIC_KEY] = average_loss
            label = head_label(type(self).__name__, self.name)
            train_op = make_train_op(
                loss, optimizer, trainable_variables, train_op_fn, update_ops, label
            )
        write_summaries({keyed(key, self.name): value for key, value in scalars.items()})
        return EstimatorSpec(mode, predictions, loss, train_op)


def keyed(key: str, name: str | None) -> str:
    """Returns the key of a metric or summary of a head: the head's name comes last."""
    return f"{key}/{name}" if name else key


def head_label(kind: str, name: str | None) -> str:
    """Returns the class and name of a head, for errors."""
    return f"{kind} {name!r}" if name else kind
