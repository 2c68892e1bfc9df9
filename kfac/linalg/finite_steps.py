"""Check that a step is finite, in one pass over its entries. Called by the step."""

from collections.abc import Sequence

import tensorflow as tf

from kfac._types import DType, Tensor
from kfac.linalg.tensor_ops import all_finite, all_true

v1 = tf.compat.v1


def is_finite_step(rate: Tensor, raw: Sequence[Tensor], others: Sequence[Tensor]) -> Tensor:
    """Returns bool [], true if a step α·x and other values are finite.

    The sum of squares of each part tells it, in one operation. So a part of float32 whose norm is
    above 1e19 counts as not finite, as its squares overflow. No weights would survive such a step.
    Entries of 16-bit dtypes, whose squares overflow soon, are looked at one by one. Parts are
    checked where they are; the flags meet where the first of them is.

    Args:
      rate: α, shape [].
      raw: The parts of x; at least one.
      others: Parts of other vectors, such as velocities, and numbers [].
    """
    return all_true([*_flags(raw, rate), *_flags([rate, *others])])


def _flags(parts: Sequence[Tensor], factor: Tensor | None = None) -> list[Tensor]:
    """Returns bool [] for each dtype, or for each part: true if its multiple is finite."""
    flags = []
    sums: dict[DType, list[Tensor]] = {}
    for part in parts:
        with v1.device(part.device):
            if part.shape.rank == 0 or part.dtype.size < tf.float32.size:
                flags.append(all_finite(_multiple(factor, part)))
            else:
                sums.setdefault(part.dtype, []).append(tf.nn.l2_loss(part))
    for values in sums.values():
        with v1.device(values[0].device):
            flags.append(all_finite(_multiple(factor, tf.sqrt(2 * tf.stack(values)))))
    return flags


def _multiple(factor: Tensor | None, tensor: Tensor) -> Tensor:
    return tensor if factor is None else tf.cast(factor, tensor.dtype) * tensor
