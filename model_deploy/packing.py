"""Packing: sends many small gradients from one device to another as a few large tensors.

Each transfer between devices has a fixed cost, however small the tensor is. Gradients with the same
source and destination are concatenated on the source device, sent as one tensor, and split on the
devices of their variables. Values do not change.
"""

from collections.abc import Sequence

import tensorflow as tf

from model_deploy._types import Gradient, Tensor, Variable
from model_deploy.arguments import check_sequence
from model_deploy.gradients import GradientsAndVariables

v1 = tf.compat.v1


def cross_in_packs(
    gradients_and_variables: GradientsAndVariables, max_bytes: int
) -> list[tuple[Gradient | None, Variable]]:
    """Sends the gradients of one copy of a model to the devices of their variables.

    Args:
      gradients_and_variables: (gradient, variable) pairs. A gradient that is None, sparse, of
        unknown shape, or already on the device of its variable is returned unchanged.
      max_bytes: Largest size of a pack in bytes. A larger gradient is sent alone.

    Returns:
      The same pairs in the same order.

    Raises:
      TypeError: `gradients_and_variables` is no list.
    """
    accepted = "a list of (gradient, variable) pairs"
    name = "gradients_and_variables"
    check_sequence("send gradients in packs", name, gradients_and_variables, accepted)
    result = list(gradients_and_variables)
    for pack in _packs(result, max_bytes):
        gradients = [result[index][0] for index in pack]
        arrived = _send_pack(gradients, result[pack[0]][1].device)
        for index, gradient in zip(pack, arrived, strict=True):
            result[index] = (gradient, result[index][1])
    return result


def _packs(
    gradients_and_variables: Sequence[tuple[Gradient | None, Variable]], max_bytes: int
) -> list[list[int]]:
    """Returns the positions of the gradients of each pack, two or more per pack."""
    open_packs: dict[tuple[str, str, tf.DType], list[int]] = {}
    filled: dict[tuple[str, str, tf.DType], int] = {}
    packs = []
    for index, (gradient, variable) in enumerate(gradients_and_variables):
        size = _packed_bytes(gradient, variable)
        if gradient is None or size is None:
            continue
        route = (gradient.device, variable.device, gradient.dtype)
        if route not in open_packs or filled[route] + size > max_bytes:
            open_packs[route] = []
            filled[route] = 0
            packs.append(open_packs[route])
        open_packs[route].append(index)
        filled[route] += size
    return [pack for pack in packs if len(pack) > 1]


def _packed_bytes(gradient: Gradient | None, variable: Variable) -> int | None:
    """Returns the size of a gradient in bytes, or None if it cannot be packed."""
    if gradient is None or isinstance(gradient, tf.IndexedSlices):
        return None
    if not gradient.shape.is_fully_defined() or gradient.device == variable.device:
        return None
    return int(gradient.shape.num_elements() * gradient.dtype.size)


def _send_pack(gradients: Sequence[Tensor], device: str) -> list[Tensor]:
    with v1.device(gradients[0].device):
        pack = tf.concat([tf.reshape(gradient, [-1]) for gradient in gradients], axis=0)
    with v1.device(device):
        sizes = [gradient.shape.num_elements() for gradient in gradients]
        parts = tf.split(tf.identity(pack), sizes)
        return [
            tf.reshape(part, gradient.shape)
            for part, gradient in zip(parts, gradients, strict=True)
        ]
