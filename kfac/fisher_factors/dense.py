"""The factor of dense layers: the second moment of vectors.

Called by the dense block, for a layer's inputs and for the gradients of its outputs.
"""

import typing

import tensorflow as tf

from kfac import linalg
from kfac._types import Tensor
from kfac.fisher_factors.base import FisherFactor, Sources


@typing.final
class FullyConnectedKroneckerFactor(FisherFactor):
    """XᵀX / rows of tensors X [rows, n]; Martens & Grosse (2015), §3."""

    def __init__(
        self, tensors: Sources, has_bias: bool, devices: tuple[str, ...], name: str
    ) -> None:
        """Makes no variables and checks no shapes yet.

        Args:
          tensors: X [rows, n] by [source][tower].
          has_bias: Whether X gets a column of ones.
          devices: Where each tower's share is computed.
          name: Path of the variables below `kfac/`.
        """
        super().__init__(tensors, devices, name)
        self._has_bias = has_bias

    @property
    def dimension(self) -> int:
        """n, plus 1 with a bias.

        Raises:
          ValueError: The tensors are not [rows, n] with static n.
        """
        return self._checked_size(rank=2) + int(self._has_bias)

    def rows(self, tensor: Tensor) -> Tensor:
        """Returns X [rows, n], or [rows, n + 1] with a bias."""
        return linalg.append_homogeneous(tensor) if self._has_bias else tf.identity(tensor)
