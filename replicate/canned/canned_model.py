"""Parts of canned estimators that all kinds share: heads, model_fns and the argument `devices`."""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

import tensorflow as tf

from replicate._types import ModelFn, Nest, Spec
from replicate.calling import takes_by_name
from replicate.canned.columns.column_cache import check_features
from replicate.canned.heads import BinaryClassHead, Head, MultiClassHead, RegressionHead
from replicate.canned.heads.measures import SummationMethod
from replicate.canned.part_optimizers import PartOptimizer
from replicate.canned.parts import Part
from replicate.model_fn import replicate_model_fn
from replicate.spec import ModeKeys
from replicate.unmodified.marks import with_loss_reduction


def one_part_model_fn(head: Any, part: Part, optimizer: PartOptimizer) -> ModelFn:
    """Returns the model_fn of a head over one part.

    Of the head, only `logits_dimension` and `create_estimator_spec` are used, and
    `curvature_losses` if the optimizer asks for it.

    Raises:
      ValueError: The optimizer is none that an estimator takes.
    """
    checked = optimizer.checked()

    def model_fn(features: Mapping[str, Any], labels: Nest, mode: str, config: Any) -> Spec:
        check_features(features)
        built = part.build(features, head.logits_dimension, mode, config)
        made = None
        if mode == ModeKeys.TRAIN:
            made = checked.make(head, features, built.logits, built)
        with _head_scope(part):
            return spec_of(
                head,
                features=features,
                mode=mode,
                logits=built.logits,
                labels=labels,
                optimizer=made,
                trainable_variables=built.variables,
                update_ops=built.updates,
            )

    return model_fn


def _head_scope(part: Part) -> AbstractContextManager[Any]:
    """Returns the name scope of a part, for its head, whose tensors had names below it."""
    outer = tf.compat.v1.get_default_graph().get_name_scope()
    path = "/".join(filter(None, (outer, part.head_scope)))
    return tf.compat.v1.name_scope(f"{path}/" if path else None)


def spec_of(head: Any, **arguments: Any) -> Spec:
    """Returns the spec of a head, which is called by keywords.

    A head of TensorFlow 1 takes neither `trainable_variables` nor `update_ops`: its optimizer
    changes all variables of the graph, and the updates run with its training operation.
    """
    create = head.create_estimator_spec
    updates = arguments["update_ops"]
    for newer in ("trainable_variables", "update_ops"):
        if newer in arguments and not takes_by_name(create, newer):
            del arguments[newer]
    spec = create(**arguments)
    if not updates or "update_ops" in arguments or spec.train_op is None:
        return spec
    return spec._replace(train_op=tf.group(spec.train_op, *updates))


def classifier_head(
    n_classes: int,
    weight_column: Any,
    label_vocabulary: Sequence[str] | None,
    loss_reduction: str,
    auc_summation_method: SummationMethod = "careful_interpolation",
) -> Head:
    """Returns the head of a classifier: BinaryClassHead for two classes, else MultiClassHead.

    Raises:
      ValueError: n_classes is less than 2, or an argument is out of range.
    """
    if n_classes == 2:
        return BinaryClassHead(
            weight_column=weight_column,
            label_vocabulary=label_vocabulary,
            loss_reduction=loss_reduction,
            auc_summation_method=auc_summation_method,
        )
    return MultiClassHead(
        n_classes,
        weight_column=weight_column,
        label_vocabulary=label_vocabulary,
        loss_reduction=loss_reduction,
    )


def regressor_head(label_dimension: int, weight_column: Any, loss_reduction: str) -> Head:
    """Returns the head of a regressor.

    Raises:
      ValueError: An argument is out of range.
    """
    return RegressionHead(
        label_dimension, weight_column=weight_column, loss_reduction=loss_reduction
    )


Reduction = tf.compat.v1.losses.Reduction

_SUMS = ("sum", "weighted_sum")
"""Values of SUM, new and old."""


def on_devices(model_fn: ModelFn, head: Any, devices: Sequence[str] | None) -> ModelFn:
    """Returns a model_fn that builds one tower on each device.

    Batches of any size are split: a tower with one row more counts for more. N towers train as one
    does, to rounding, with the reductions SUM and SUM_OVER_BATCH_SIZE. Reductions that divide by
    the sum or the number of weights divide by those of each tower.

    Args:
      model_fn: A model_fn whose optimizers are made by `resolved_optimizer`.
      head: Its head, whose `loss_reduction` tells if the towers' losses are summed or averaged.
      devices: Name of a device for each tower; None for a model_fn that builds no towers, unless
        its Estimator adds them.

    Raises:
      TypeError: devices is one string.
      ValueError: A device does not exist.
    """
    reduction = Reduction.SUM_OVER_BATCH_SIZE
    if getattr(head, "loss_reduction", None) in _SUMS:
        reduction = Reduction.SUM
    if devices is None:
        return with_loss_reduction(model_fn, reduction)
    return replicate_model_fn(model_fn, reduction, devices, uneven="weighted")
