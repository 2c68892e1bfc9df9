"""Packs: gradients of several variables in one vector, so that few collectives send them all.

Packs are in the order in which the backward pass computes gradients: the last variables first. So
the first packs are on their way while the other gradients are still being computed.
"""

import dataclasses
import math
from collections.abc import Callable, Sequence
from typing import final

import tensorflow as tf

from model_deploy.gradients import gradient_values
from replicate._types import Tensor

v1 = tf.compat.v1


@final
@dataclasses.dataclass(frozen=True)
class Pack:
    """Tensors of one type and device that are sent together.

    Attributes:
      places: Places of the tensors in the sequence that was packed.
      tensors: The tensors. Their shapes are known.
    """

    places: tuple[int, ...]
    tensors: tuple[Tensor, ...]

    def through(self, send: Callable[[Tensor], Tensor]) -> list[Tensor]:
        """Returns the tensors after their pack went through a function of vectors.

        Args:
          send: Function from a vector to a vector of the same length.
        """
        return self.split(send(self.flat))

    @property
    def flat(self) -> Tensor:
        """The tensors in one vector."""
        with v1.device(self.tensors[0].device):
            flat = [tf.reshape(tensor, [-1]) for tensor in self.tensors]
            return flat[0] if len(flat) == 1 else tf.concat(flat, axis=0)

    def split(self, vector: Tensor) -> list[Tensor]:
        """Returns the parts of a vector, such as `flat`, in the shapes of the tensors."""
        with v1.device(self.tensors[0].device):
            sizes = [math.prod(tensor.shape.as_list()) for tensor in self.tensors]
            parts = [vector] if len(sizes) == 1 else tf.split(vector, sizes)
            return [
                tf.reshape(part, tensor.shape)
                for part, tensor in zip(parts, self.tensors, strict=True)
            ]


def packs_of(tensors: Sequence[Tensor], pack_bytes: int | None) -> list[Pack]:
    """Packs tensors, the last ones first.

    Args:
      tensors: Tensors of known shapes.
      pack_bytes: Most bytes of a pack, unless a single tensor is larger; None for packs of one.
    """
    packs: list[list[int]] = []
    open_packs: dict[object, list[int]] = {}
    sizes: dict[int, int] = {}
    for place in reversed(range(len(tensors))):
        tensor = tensors[place]
        size = math.prod(tensor.shape.as_list()) * tensor.dtype.size
        key = (tensor.dtype, tensor.device)
        pack = open_packs.get(key)
        if pack is None or pack_bytes is None or sizes[id(pack)] + size > pack_bytes:
            pack = open_packs[key] = []
            packs.append(pack)
            sizes[id(pack)] = 0
        pack.append(place)
        sizes[id(pack)] += size
    return [Pack(tuple(pack), tuple(tensors[place] for place in pack)) for pack in packs]


def sent_in_packs(
    tensors: Sequence[Tensor], pack_bytes: int | None, send: Callable[[Tensor], Tensor]
) -> list[Tensor]:
    """Returns tensors after their packs went through a function, in their order.

    Args:
      tensors: Tensors of known shapes.
      pack_bytes: As for `packs_of`.
      send: Function from a vector to a vector of the same length.
    """
    sent: dict[int, Tensor] = {}
    for pack in packs_of(tensors, pack_bytes):
        sent.update(zip(pack.places, pack.through(send), strict=True))
    return [sent[place] for place in range(len(tensors))]


def shaped_as(gradient: Tensor | tf.IndexedSlices, variable: Tensor) -> Tensor:
    """Returns a dense gradient with the shape of its variable, which must be known.

    Args:
      gradient: Dense gradient.
      variable: Its variable.

    Raises:
      ValueError: The shape of the variable is not known.
    """
    if not variable.shape.is_fully_defined():
        raise ValueError(
            f"AllReduce needs the shapes of all variables that are trained, and that of "
            f"{variable.op.name!r} is {variable.shape}. Make it with a full shape."
        )
    values = gradient_values(gradient)
    return tf.ensure_shape(values, variable.shape) if values.shape != variable.shape else values
