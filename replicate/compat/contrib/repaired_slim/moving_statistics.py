"""Moving averages of batch statistics: the debiased one, and batch renormalization.

References:
  Ioffe and Szegedy (2015), Batch Normalization, https://arxiv.org/abs/1502.03167
  Kingma and Ba (2014), Adam, https://arxiv.org/abs/1412.6980
  Ioffe (2017), Batch Renormalization, https://arxiv.org/abs/1702.03275
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from replicate.compat.layers.moving_average import move_towards

v1 = tf.compat.v1


def move_debiased(variable: Any, value: Any, decay: Any, collections: Sequence[str]) -> Any:
    """Moves an average that is corrected for its start at zero, as in Kingma and Ba (2014), §3.

    Two variables below the name of the average keep the biased average b and the number of steps t:
    b ← d b + (1 − d) x, t ← t + 1, m ← b / (1 − dᵗ).

    Args:
      variable: The average m.
      value: Tensor x of its shape.
      decay: Weight d of the old average, in [0, 1).
      collections: Collections of the two variables.

    Returns:
      The assignment of m.
    """
    dtype = variable.dtype.base_dtype
    settings = {"initializer": v1.zeros_initializer(), "trainable": False}
    with v1.variable_scope(variable.op.name):
        biased, step = (
            v1.get_variable(name, shape, dtype, collections=list(collections), **settings)
            for name, shape in (("biased", variable.shape), ("local_step", []))
        )
    new_biased = move_towards(biased, value, decay)
    new_step = v1.assign_add(step, tf.ones([], dtype))
    with tf.control_dependencies([new_biased, new_step]):
        mean = biased.read_value() / (1.0 - tf.cast(decay, dtype) ** step.read_value())
        return v1.assign(variable, mean)


class Renormalized(NamedTuple):
    """Corrections of batch renormalization.

    Attributes:
      scale: Tensor r [channels], the batch's deviation over the average one.
      shift: Tensor d [channels], the distance of the means in average deviations.
      updates: Assignments of the averages.
    """

    scale: Any
    shift: Any
    updates: list[Any]


def renormalize(
    mean: Any, variance: Any, averages: tuple[Any, Any], clipping: Mapping[str, Any], decay: Any
) -> Renormalized:
    """Computes the corrections of Ioffe (2017), §3, for a batch in training.

    Args:
      mean: Mean of the batch [channels].
      variance: Its variance with epsilon added [channels].
      averages: Variables of the average mean and the average deviation [channels].
      clipping: Limits "rmin", "rmax" and "dmax"; one that is missing does not limit.
      decay: Weight of the old averages.
    """
    average_mean, average_deviation = averages
    deviation = tf.sqrt(variance)
    scale = deviation / average_deviation
    shift = (mean - average_mean) / average_deviation
    with tf.control_dependencies([scale, shift]):
        new = tf.identity(mean), tf.identity(deviation)
    if clipping.get("rmin") is not None:
        scale = tf.maximum(scale, clipping["rmin"])
    if clipping.get("rmax") is not None:
        scale = tf.minimum(scale, clipping["rmax"])
    if clipping.get("dmax") is not None:
        shift = tf.clip_by_value(shift, -clipping["dmax"], clipping["dmax"])
    updates = [
        move_towards(average, value, decay) for average, value in zip(averages, new, strict=True)
    ]
    return Renormalized(tf.stop_gradient(scale), tf.stop_gradient(shift), updates)
