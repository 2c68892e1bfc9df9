"""Canned estimators on several devices, by their argument `devices`."""

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from replicate._types import ModelFn
from replicate.model_fn import replicate_model_fn, with_loss_reduction

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
