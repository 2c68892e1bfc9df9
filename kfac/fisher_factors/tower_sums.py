"""The statistic of a batch as a sum over towers, in which each tower weighs by its rows.

Each tower adds up the products of its own rows on its own device. The sums of all towers over the
number of all their rows are the mean over the batch, however the rows are divided.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from kfac._types import Scalar, Tensor

v1 = tf.compat.v1

Sources = tuple[tuple[Any, ...], ...]
"""Tensors, or tuples of Tensors, by [source][tower]."""


class Moment(NamedTuple):
    """One tower's share of a statistic: a sum over its examples, and their number.

    The total has the shape of the statistic. The count is that of the summed rows or examples, an
    int or an int Tensor [].
    """

    total: Tensor
    count: Scalar


def add_towers(
    tensors: Sources,
    devices: Sequence[str],
    share: Callable[[Any], Moment],
    unpack: Callable[[Tensor], Tensor] | None = None,
) -> Moment:
    """Returns the moment of all towers and sources.

    Sources have the same examples: their totals are added, and examples count once.

    Args:
      tensors: What the towers' shares are computed of.
      devices: The device of each tower, on which its share is computed.
      share: Returns the moment of one tower.
      unpack: Undoes the form in which totals cross to another device; None if they do not.
    """
    sources = []
    for towers in tensors:
        moments = []
        for own, device in zip(towers, devices, strict=True):
            with v1.device(device):
                moments.append(share(own))
        totals, counts = zip(*moments, strict=True)
        total = tf.add_n(totals)
        is_static = all(isinstance(count, int) for count in counts)
        count = sum(counts) if is_static else tf.add_n([*map(tf.convert_to_tensor, counts)])
        sources.append(Moment(unpack(total) if unpack else total, count))
    return Moment(tf.add_n([source.total for source in sources]), sources[0].count)
