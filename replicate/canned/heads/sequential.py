"""SequentialHeadWrapper: a head for each step of padded sequences."""

import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import tensorflow as tf

from replicate._types import Nest, Operation, Tensor, Variable
from replicate.canned.heads.checks import checked, same_shape
from replicate.canned.heads.curvature import CurvatureLoss
from replicate.canned.heads.head import Head
from replicate.canned.heads.multi_head import MultiHead
from replicate.spec import EstimatorSpec, ModeKeys

v1 = tf.compat.v1


class _Steps(typing.NamedTuple):
    """The steps [steps, ...] of all sequences that are not padding, one after the other."""

    labels: Tensor | None
    logits: Tensor
    features: dict[str, Tensor]


@typing.final
class SequentialHeadWrapper(Head):
    """Head that treats each step of a sequence as an example of another head.

    Logits and labels are [batch, time, ...]. A feature, [batch, time], is True for the steps that
    count; the others are padding. Loss and metrics are those of the wrapped head for all steps that
    count. Predictions are made for all steps, and contain the mask.
    """

    def __init__(
        self,
        static_head: Head,
        sequence_length_mask: str = "sequence_length_mask",
        feature_columns: str | Iterable[str] | None = None,
    ) -> None:
        """Makes the head.

        Args:
          static_head: Head of one step.
          sequence_length_mask: Key of the feature with the mask, [batch, time].
          feature_columns: Key or keys of features that the wrapped head uses, such as its weight
            column, [batch, time, ...].

        Raises:
          TypeError: The head is no `Head`, or a key is not a string.
          ValueError: The head is a MultiHead.
        """
        if not isinstance(static_head, Head):
            raise TypeError(
                f"Cannot make SequentialHeadWrapper: static_head must be a replicate.Head, got "
                f"{static_head!r}. Pass the head of one step, such as replicate.BinaryClassHead()."
            )
        columns = [feature_columns] if isinstance(feature_columns, str) else feature_columns or []
        if not isinstance(columns, Iterable):
            raise TypeError(
                f"Cannot make SequentialHeadWrapper: feature_columns must be a key or keys of "
                f"features, got {feature_columns!r}. Pass a list of strings."
            )
        self._columns = list(columns)
        for key in (sequence_length_mask, *self._columns):
            if not isinstance(key, str):
                raise TypeError(
                    f"Cannot make SequentialHeadWrapper: features are named by strings, got "
                    f"{key!r}. Pass the key of the feature."
                )
        if isinstance(static_head, MultiHead):
            raise ValueError(
                f"Cannot make SequentialHeadWrapper of MultiHead {static_head.name!r}: a mask "
                "belongs to one head. Wrap each head, and put the wrappers into a MultiHead."
            )
        self._head = static_head
        self._mask_key = sequence_length_mask

    @property
    def static_head(self) -> Head:
        """The wrapped head."""
        return self._head

    @property
    def input_sequence_mask_key(self) -> str:
        """Key of the feature with the mask."""
        return self._mask_key

    @property
    def name(self) -> str | None:
        """Name of the wrapped head and "_sequential"; None if that has no name."""
        return f"{self._head.name}_sequential" if self._head.name else None

    @property
    def logits_dimension(self) -> int:
        """Last dimension of the logits."""
        return self._head.logits_dimension

    @property
    def loss_reduction(self) -> str:
        """Reduction of the losses of the steps."""
        return self._head.loss_reduction

    def loss(
        self,
        labels: Nest,
        logits: Nest,
        features: Mapping[str, Any] | None = None,
        mode: str | None = None,
        regularization_losses: Sequence[Tensor] | None = None,
    ) -> Tensor:
        """Computes the wrapped head's loss of all steps that count. See `Head.loss`."""
        steps = self._steps(labels, logits, features)
        return self._head.loss(
            labels=steps.labels,
            logits=steps.logits,
            features=steps.features,
            mode=mode,
            regularization_losses=regularization_losses,
        )

    def predictions(self, logits: Nest, keys: Sequence[str] | None = None) -> dict[Any, Tensor]:
        """Computes the wrapped head's predictions of all steps. See `Head.predictions`."""
        return self._head.predictions(logits, keys)

    def metrics(self, regularization_losses: Sequence[Tensor] | None = None) -> dict[str, Any]:
        """Makes the wrapped head's metric objects. See `Head.metrics`."""
        return self._head.metrics(regularization_losses)

    def update_metrics(
        self,
        eval_metrics: dict[str, Any],
        features: Mapping[str, Any] | None,
        logits: Nest,
        labels: Nest,
        mode: str | None = None,
        regularization_losses: Sequence[Tensor] | None = None,
    ) -> dict[str, Any]:
        """Adds the steps that count to metric objects, and returns these."""
        del mode
        steps = self._steps(labels, logits, features)
        return self._head.update_metrics(
            eval_metrics,
            steps.features,
            steps.logits,
            steps.labels,
            regularization_losses=regularization_losses,
        )

    def curvature_losses(
        self, logits: Nest, features: Mapping[str, Any] | None = None
    ) -> tuple[CurvatureLoss, ...] | None:
        """Describes the wrapped head's loss of the steps that count."""
        steps = self._steps(None, logits, features)
        return self._head.curvature_losses(steps.logits, steps.features)

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
        """Makes the wrapped head's spec: in PREDICT of all steps, else of those that count.

        The arguments are those of `Head.create_estimator_spec`.

        Raises:
          ValueError: Any of `Head.create_estimator_spec`, the mask is missing, or a Tensor lacks
            the axes batch and time.
        """
        if mode == ModeKeys.PREDICT:
            mask = self._mask(features)
            spec = self._head.create_estimator_spec(features=features, mode=mode, logits=logits)
            return spec._replace(predictions={**spec.predictions, self._mask_key: mask})
        steps = self._steps(labels, logits, features)
        return self._head.create_estimator_spec(
            features=steps.features,
            mode=mode,
            logits=steps.logits,
            labels=steps.labels,
            optimizer=optimizer,
            trainable_variables=trainable_variables,
            train_op_fn=train_op_fn,
            update_ops=update_ops,
            regularization_losses=regularization_losses,
        )

    def _mask(self, features: Mapping[str, Any] | None) -> Tensor:
        mask = self._feature(self._mask_key, features)
        mask = tf.cast(tf.convert_to_tensor(mask), tf.bool)
        if mask.shape.rank != 2:
            raise ValueError(
                f"Cannot use feature {self._mask_key!r} as the mask of SequentialHeadWrapper: its "
                f"shape must be [batch, time], got {mask.shape}. Make it with tf.sequence_mask."
            )
        return mask

    def _feature(self, key: str, features: Mapping[str, Any] | None) -> Any:
        if key not in (features or {}):
            raise ValueError(
                f"SequentialHeadWrapper needs feature {key!r}, but the features are "
                f"{sorted(map(str, features or {}))}. Put it into the features of model_fn."
            )
        return (features or {})[key]

    def _steps(self, labels: Nest, logits: Nest, features: Mapping[str, Any] | None) -> _Steps:
        mask = self._mask(features)
        with v1.name_scope("flatten"):
            return _Steps(
                None if labels is None else _flattened("labels", labels, mask),
                _flattened("logits", logits, mask),
                {
                    key: _flattened(f"feature {key!r}", self._feature(key, features), mask)
                    for key in self._columns
                },
            )


def _flattened(name: str, value: Any, mask: Tensor) -> Tensor:
    """Returns the rows of the steps that count, [steps, ...]; [batch, time] becomes [steps, 1].

    Of a SparseTensor, [batch, time, ...], the values are the rows, whatever the mask.
    """
    is_sparse = isinstance(value, tf.SparseTensor)
    value = value if is_sparse else tf.convert_to_tensor(value)
    if value.shape.rank is None or value.shape.rank < 2:
        raise ValueError(
            f"SequentialHeadWrapper needs {name} of shape [batch, time, ...], got {value.shape}. "
            "Give each step of a sequence its own entry."
        )
    steps = tf.math.count_nonzero(mask, dtype=tf.int32)
    rest = list(value.shape[2:]) or [1]
    if is_sparse:
        rows = tf.reshape(tf.sparse.reorder(value).values, [-1, *rest])
    else:
        rows = tf.boolean_mask(value, mask)
        rows = rows if value.shape.rank > 2 else tf.expand_dims(rows, -1)
    shape, mask_shape = tf.shape(rows), tf.shape(mask)
    return checked(
        rows,
        same_shape(shape, tf.concat([[steps], shape[1:]], axis=0)),
        f"SequentialHeadWrapper: {name} have another number of steps than the mask has True "
        "entries. Make the mask from the same sequence lengths.",
        {"steps": steps, "rows_shape": shape, "mask_shape": mask_shape},
    )
