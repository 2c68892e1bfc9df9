"""MultiHead: several heads on one model, each with its own logits and labels."""

import typing
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import tensorflow as tf

from replicate._types import Nest, Operation, Tensor, Variable
from replicate.canned.heads.classes import PREDICT
from replicate.canned.heads.curvature import CurvatureLoss
from replicate.canned.heads.head import REGULARIZATION_LOSS_KEY, Head, keyed
from replicate.canned.heads.labels import checked_logits
from replicate.canned.heads.measures import batch_mean
from replicate.canned.heads.metric_objects import Metric, scope_name
from replicate.canned.heads.reductions import old_reduction, told, total_regularization
from replicate.canned.heads.train_ops import make_train_op, write_summaries
from replicate.export.outputs import DEFAULT_SIGNATURE, ExportOutput, PredictOutput
from replicate.spec import LOSS_METRIC_KEY, EstimatorSpec, ModeKeys

v1 = tf.compat.v1


@typing.final
class MultiHead(Head):
    """Several heads whose losses are added, with weights.

    Logits are a dict by the heads' names, or one Tensor [D0, ..., DN, logits_dimension] that is
    split along its last axis in the order of the heads. Labels are a dict by the heads' names.

    Predictions have pairs (name of the head, key) as keys. Metrics are those of each head, and
    loss/NAME, the mean over the batches of that head's training loss. Signatures are NAME and
    NAME/KEY for each signature KEY of a head; serving_default, that of the first head; and predict,
    with all predictions as NAME/KEY.
    """

    def __init__(self, heads: Sequence[Head], head_weights: Sequence[float] | None = None) -> None:
        """Makes the head.

        Args:
          heads: List or tuple of heads with different names and the same reduction.
          head_weights: Weights of their losses. None or empty: all are 1.

        Raises:
          ValueError: There are no heads, one has no name, two have the same, their reductions
            differ, or there is another number of weights.
        """
        self._heads = tuple(heads or ())
        self._weights = tuple(head_weights or [1.0] * len(self._heads))
        names = [head.name for head in self._heads]
        if not names or None in names or "" in names or len(set(names)) < len(names):
            raise ValueError(
                f"Cannot make MultiHead: it needs one or more heads, each with a name of its own, "
                f"got heads {list(self._heads)} with the names {names}. Pass name=... to each head."
            )
        if len(self._weights) != len(names):
            raise ValueError(
                f"Cannot make MultiHead: head_weights has {len(self._weights)} weights, but there "
                f"are {len(names)} heads {names}. Give each head one weight."
            )
        reductions = {head.name: head.loss_reduction for head in self._heads}
        if len({old_reduction(each) for each in reductions.values()}) > 1:
            raise ValueError(
                f"Cannot make MultiHead: the heads differ in loss_reduction, {reductions}. Make "
                "all with the same."
            )

    @property
    def name(self) -> str:
        """Names of the heads, joined by "_"."""
        return "_".join(self._names)

    @property
    def logits_dimension(self) -> int:
        """Sum of the heads' dimensions."""
        return sum(head.logits_dimension for head in self._heads)

    @property
    def loss_reduction(self) -> str:
        """Reduction of the examples' losses in each head."""
        return self._heads[0].loss_reduction

    @property
    def _names(self) -> list[str]:
        return [head.name or "" for head in self._heads]

    def loss(
        self,
        labels: Nest,
        logits: Nest,
        features: Mapping[str, Any] | None = None,
        mode: str | None = None,
        regularization_losses: Sequence[Tensor] | None = None,
    ) -> Tensor:
        """Computes Σ weight · loss over the heads, a scalar. See `Head.loss`."""
        losses = self._losses(self._labels(labels), self._logits(logits), features, mode)
        return self._merged_loss(losses, regularization_losses)

    def predictions(self, logits: Nest, keys: Sequence[Any] | None = None) -> dict[Any, Tensor]:
        """Computes predictions, by pairs (name of the head, key).

        Raises:
          ValueError: A pair is unknown.
        """
        by_name = self._logits(logits)
        found = _paired(
            {name: head.predictions(by_name[name]) for name, head in self._named_heads()}
        )
        unknown = [key for key in keys or () if key not in found]
        if unknown:
            raise ValueError(
                f"Cannot compute the predictions {unknown} of MultiHead {self.name!r}: its "
                f"predictions are {list(found)}. Choose of these, or leave keys out for all."
            )
        return {key: value for key, value in found.items() if not keys or key in keys}

    def metrics(self, regularization_losses: Sequence[Tensor] | None = None) -> dict[str, Any]:
        """Makes the metric objects of all heads, and those of their losses."""
        metrics: dict[str, Any] = {}
        for head in self._heads:
            metrics.update(head.metrics())
        return {**metrics, **self._loss_metrics(regularization_losses)}

    def update_metrics(
        self,
        eval_metrics: dict[str, Any],
        features: Mapping[str, Any] | None,
        logits: Nest,
        labels: Nest,
        mode: str | None = None,
        regularization_losses: Sequence[Tensor] | None = None,
    ) -> dict[str, Any]:
        """Adds a batch to metric objects, and returns them. See `Head.update_metrics`."""
        by_name, labels = self._logits(logits), self._labels(labels)
        losses = self._losses(labels, by_name, features, mode)
        self._update_loss_metrics(eval_metrics, losses, regularization_losses)
        for name, head in self._named_heads():
            updated = head.update_metrics(eval_metrics, features, by_name[name], labels[name])
            eval_metrics.update(updated or {})
        return eval_metrics

    def curvature_losses(
        self, logits: Nest, features: Mapping[str, Any] | None = None
    ) -> tuple[CurvatureLoss, ...] | None:
        """Describes the heads' losses, times their weights; None if one of them is not known."""
        by_name = self._logits(logits)
        described: list[CurvatureLoss] = []
        for (name, head), weight in zip(self._named_heads(), self._weights, strict=True):
            losses = head.curvature_losses(by_name[name], features)
            if losses is None:
                return None
            described += [loss.scaled(weight) for loss in losses]
        return tuple(described)

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
        """Makes the spec that a model_fn returns, from those of the heads.

        The arguments are those of `Head.create_estimator_spec`, with logits and labels as the class
        describes them. The heads are asked for specs that train nothing.

        Raises:
          ValueError: Any of `Head.create_estimator_spec`, or logits or labels lack a head.
        """
        with v1.name_scope(scope_name(self.name)):
            by_name = self._logits(logits)
            of_heads = {} if mode == ModeKeys.PREDICT else self._labels(labels)
            specs = {
                name: head.create_estimator_spec(
                    features=features,
                    mode=mode,
                    logits=by_name[name],
                    labels=of_heads.get(name),
                    train_op_fn=_train_nothing,
                )
                for name, head in self._named_heads()
            }
            predictions = _paired({name: spec.predictions for name, spec in specs.items()})
            if mode == ModeKeys.PREDICT:
                exports = self._merged_exports(specs, predictions)
                return EstimatorSpec(mode, predictions, export_outputs=exports)
            losses = {name: spec.loss for name, spec in specs.items()}
            loss = told(self._merged_loss(losses, regularization_losses), self.loss_reduction)
            if mode == ModeKeys.EVAL:
                metrics = self._loss_metrics(regularization_losses)
                self._update_loss_metrics(metrics, losses, regularization_losses)
                for spec in specs.values():
                    metrics.update(spec.eval_metric_ops)
                return EstimatorSpec(mode, predictions, loss, eval_metric_ops=metrics)
            label = f"MultiHead {self.name!r}"
            train_op = make_train_op(
                loss, optimizer, trainable_variables, train_op_fn, update_ops, label
            )
        scalars = {LOSS_METRIC_KEY: loss}
        if regularization_losses:
            scalars[REGULARIZATION_LOSS_KEY] = total_regularization(regularization_losses)
        write_summaries(scalars)
        return EstimatorSpec(mode, predictions, loss, train_op)

    def _named_heads(self) -> list[tuple[str, Head]]:
        return list(zip(self._names, self._heads, strict=True))

    def _logits(self, logits: Nest) -> Mapping[str, Nest]:
        """Returns the logits of each head by its name."""
        if isinstance(logits, Mapping):
            return self._complete("logits", logits)
        with v1.name_scope("split_logits"):
            joined = checked_logits(logits, self.logits_dimension, f"MultiHead {self.name!r}")
            sizes = [head.logits_dimension for head in self._heads]
            return dict(zip(self._names, tf.split(joined, sizes, axis=-1), strict=True))

    def _labels(self, labels: Nest) -> Mapping[str, Nest]:
        """Returns the labels of each head by its name."""
        if not isinstance(labels, Mapping):
            raise ValueError(
                f"Cannot compute the loss of MultiHead {self.name!r}: labels must be a dict with "
                f"the labels of each head by its name, {self._names}, got {labels!r}. Return such "
                "a dict from input_fn."
            )
        return self._complete("labels", labels)

    def _complete(self, kind: str, given: Mapping[str, Nest]) -> Mapping[str, Nest]:
        missing = [name for name in self._names if name not in given]
        if missing:
            raise ValueError(
                f"Cannot use the {kind} in MultiHead {self.name!r}: they lack the heads {missing}, "
                f"they are for {sorted(map(str, given))}. Give {kind} for each head by its name."
            )
        return given

    def _losses(
        self,
        labels: Mapping[str, Nest],
        logits: Mapping[str, Nest],
        features: Mapping[str, Any] | None,
        mode: str | None,
    ) -> dict[str, Tensor]:
        return {
            name: head.loss(labels=labels[name], logits=logits[name], features=features, mode=mode)
            for name, head in self._named_heads()
        }

    def _merged_loss(
        self, losses: Mapping[str, Tensor], regularization_losses: Sequence[Tensor] | None
    ) -> Tensor:
        with v1.name_scope("merge_losses"):
            weighted = [
                loss * weight for loss, weight in zip(losses.values(), self._weights, strict=True)
            ]
            if regularization_losses:
                weighted.append(total_regularization(regularization_losses))
            return tf.add_n(weighted)

    def _loss_metrics(self, regularization_losses: Sequence[Tensor] | None) -> dict[str, Any]:
        keys = [keyed(LOSS_METRIC_KEY, name) for name in self._names]
        if regularization_losses:
            keys.append(keyed(REGULARIZATION_LOSS_KEY, self.name))
        with v1.name_scope("metrics"):
            return {key: Metric(key, batch_mean()) for key in keys}

    def _update_loss_metrics(
        self,
        metrics: Mapping[str, Any],
        losses: Mapping[str, Tensor],
        regularization_losses: Sequence[Tensor] | None,
    ) -> None:
        for name, loss in losses.items():
            metrics[keyed(LOSS_METRIC_KEY, name)].update_state(loss)
        if regularization_losses:
            total = total_regularization(regularization_losses)
            metrics[keyed(REGULARIZATION_LOSS_KEY, self.name)].update_state(total)

    def _merged_exports(
        self, specs: Mapping[str, EstimatorSpec], predictions: Mapping[Any, Tensor]
    ) -> dict[str, ExportOutput]:
        merged = {}
        for name, spec in specs.items():
            for key, output in (spec.export_outputs or {}).items():
                merged[name if key == DEFAULT_SIGNATURE else f"{name}/{key}"] = output
        default = merged[self._names[0]]
        return {DEFAULT_SIGNATURE: default, **merged, PREDICT: PredictOutput(predictions)}


def _paired(predictions: Mapping[str, Nest]) -> dict[Any, Tensor]:
    """Returns the predictions of all heads, by pairs (name of the head, key)."""
    return {
        (name, key): value for name, found in predictions.items() for key, value in found.items()
    }


def _train_nothing(loss: Tensor) -> Operation:
    del loss
    return tf.no_op()
