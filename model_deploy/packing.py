"""Packing: many small gradients cross from one device to another as a few large tensors.

Each transfer between devices has a price of its own, however small the tensor. Gradients with the
same way to go are laid end to end on the device they come from, sent as one, and taken apart where
their variables live. Values do not change.
"""

from collections.abc import Sequence

import tensorflow as tf

from model_deploy._types import Gradient, Tensor, Variable
from model_deploy.gradients import GradientsAndVariables

v1 = tf.compat.v1


def cross_in_packs(
    gradients_and_variables: GradientsAndVariables, max_bytes: int
) -> list[tuple[Gradient | None, Variable]]:
    """Brings the gradients of one copy of a model to the devices of their variables.

    Args:
      gradients_and_variables: (gradient, variable) pairs. Those whose gradient is None, sparse, of
        unknown shape, or on the variable's device already are returned as they are.
      max_bytes: Upper bound of the size of a pack; a larger gradient travels alone.

    Returns:
      The same pairs in the same order.
    """
    result = list(gradients_and_variables)
    for pack in _packs(result, max_bytes):
        gradients = [result[index][0] for index in pack]
        arrived = _cross(gradients, result[pack[0]][1].device)
        for index, gradient in zip(pack, arrived, strict=True):
            result[index] = (gradient, result[index][1])
    return result


def _packs(
    gradients_and_variables: Sequence[tuple[Gradient | None, Variable]], max_bytes: int
) -> list[list[int]]:
    """Positions of the gradients that travel together, two or more at a time."""
    open_packs: dict[tuple[str, str, tf.DType], list[int]] = {}
    filled: dict[tuple[str, str, tf.DType], int] = {}
    packs = []
    for index, (gradient, variable) in enumerate(gradients_and_variables):
        size = _bytes_to_cross(gradient, variable)
        if gradient is None or size is None:
            continue
        way = (gradient.device, variable.device, gradient.dtype)
        if way not in open_packs or filled[way] + size > max_bytes:
            open_packs[way] = []
            filled[way] = 0
            packs.append(open_packs[way])
        open_packs[way].append(index)
        filled[way] += size
    return [pack for pack in packs if len(pack) > 1]


def _bytes_to_cross(gradient: Gradient | None, variable: Variable) -> int | None:
    """Bytes of a gradient that can travel in a pack, or None."""
    if gradient is None or isinstance(gradient, tf.IndexedSlices):
        return None
    if not gradient.shape.is_fully_defined() or gradient.device == variable.device:
        return None
    return int(gradient.shape.num_elements() * gradient.dtype.size)


def _cross(gradients: Sequence[Tensor], device: str) -> list[Tensor]:
    with v1.device(gradients[0].device):
        pack = tf.concat([tf.reshape(gradient, [-1]) for gradient in gradients], axis=0)
    with v1.device(device):
        sizes = [gradient.shape.num_elements() for gradient in gradients]
        parts = tf.split(tf.identity(pack), sizes)
        return [
            tf.reshape(part, gradient.shape)
            for part, gradient in zip(parts, gradients, strict=True)
        ]
