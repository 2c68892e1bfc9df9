"""Merging of the towers' specs into one that an Estimator runs.

In TRAIN the result is the spec of the last tower, whose train_op applies the gradients of all
towers. In EVAL and PREDICT it is the spec of the first tower, with metrics over the whole batch and
predictions in the order of its rows. Scalars among the predictions of EVAL are the first tower's.
"""

import re
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from model_deploy.gradients import add_in_order
from replicate._types import Operation, Spec, Tensor
from replicate.results.metrics import merge_metrics
from replicate.results.rows import join_rows
from replicate.spec import ModeKeys

v1 = tf.compat.v1

_OPERATION_NAME = re.compile(r"[A-Za-z0-9.][A-Za-z0-9_.\\/>-]*")


def merge_specs(
    mode: str,
    specs: Sequence[Spec],
    device: str,
    rows: Tensor | None = None,
    besides: Sequence[Operation] = (),
) -> Spec:
    """Merges the specs of all towers, whose losses are already scaled.

    `rows` are those of the batch if the shards contain added rows, else None. `besides` are
    operations that run in every training step besides train_op.

    Returns:
      A spec of the same type. A single spec without these operations is returned unchanged.

    Raises:
      TypeError: A prediction or an export output is of a kind that cannot be merged.
      ValueError: Towers made different metrics, or predictions or metrics that cannot be merged.
    """
    if besides:
        train_op = v1.group(specs[-1].train_op, *besides, name="train_op_with_updates")
        specs = [*specs[:-1], specs[-1]._replace(train_op=train_op)]
    if len(specs) == 1:
        return specs[0]
    with v1.device(device):
        if mode == ModeKeys.TRAIN:
            return specs[-1]._replace(loss=_total_loss(specs))
        if mode == ModeKeys.EVAL:
            metrics = merge_metrics(
                [spec.eval_metric_ops for spec in specs], [_results(spec) for spec in specs]
            )
            return specs[0]._replace(
                loss=_total_loss(specs),
                eval_metric_ops=metrics,
                predictions=_concatenated(
                    [spec.predictions for spec in specs], rows, takes_scalars=True
                ),
            )
        return specs[0]._replace(
            predictions=_concatenated([spec.predictions for spec in specs], rows),
            export_outputs=_merged_exports([spec.export_outputs or {} for spec in specs], rows),
        )


def _results(spec: Spec) -> list[Tensor]:
    """Returns the loss and the predictions of a tower."""
    return [each for each in tf.nest.flatten([spec.loss, spec.predictions]) if each is not None]


def _total_loss(specs: Sequence[Spec]) -> Tensor:
    return add_in_order([spec.loss for spec in specs], name="loss")


def _concatenated(parts: Sequence[Any], rows: Tensor | None, takes_scalars: bool = False) -> Any:
    """Concatenates the towers' predictions, Tensors or dicts of them, in the batch's order.

    If it `takes_scalars`, those of the first tower stay as they are.
    """
    if parts[0] is None:
        return None
    if not isinstance(parts[0], dict):
        return _joined(parts, rows, "predictions", takes_scalars)
    return {
        key: _joined([part[key] for part in parts if key in part], rows, key, takes_scalars)
        for key in dict.fromkeys(key for part in parts for key in part)
    }


def _joined(parts: Sequence[Tensor], rows: Tensor | None, key: Any, takes_scalars: bool) -> Tensor:
    if takes_scalars and parts[0].shape.rank == 0:
        return parts[0]
    name = key if isinstance(key, str) and _OPERATION_NAME.fullmatch(key) else "predictions"
    joined = join_rows(parts, key, name)
    return joined if rows is None else joined[:rows]


def _merged_exports(exports: Sequence[dict[str, Any]], rows: Tensor | None) -> dict[str, Any]:
    return {
        key: _merged_export(key, [export[key] for export in exports if key in export], rows)
        for key in dict.fromkeys(key for export in exports for key in export)
    }


def _merged_export(key: str, outputs: Sequence[Any], rows: Tensor | None) -> Any:
    """Merges export outputs of one of the three kinds, ours or those of tf.estimator.

    Both have the same fields, which tell the kind.
    """
    kind = type(outputs[0])
    if hasattr(outputs[0], "outputs"):
        return kind(_concatenated([output.outputs for output in outputs], rows))
    if hasattr(outputs[0], "value"):
        return kind(_concatenated([output.value for output in outputs], rows))
    if hasattr(outputs[0], "scores"):
        return kind(
            scores=_concatenated([output.scores for output in outputs], rows),
            classes=_joined_classes([output.classes for output in outputs], rows),
        )
    raise TypeError(
        f"Cannot merge export output {key!r} over towers: it is {outputs[0]!r}. Accepted are "
        f"PredictOutput, RegressionOutput and ClassificationOutput."
    )


def _joined_classes(classes: Sequence[Tensor | None], rows: Tensor | None) -> Tensor | None:
    """Concatenates class names along the batch. Scalars, one per tower, become a vector."""
    if classes[0] is not None and classes[0].shape.rank == 0:
        return tf.stack(classes)
    return _concatenated(classes, rows)
