"""The two factors of convolutions: patches of the inputs, and gradients at each location.

Called by the convolution block. The geometry of patches is in `kfac.conv_geometry`.

References:
  Grosse & Martens (2016), arXiv:1602.01407, §3.
"""

import typing

import tensorflow as tf

from kfac import linalg
from kfac._types import Tensor
from kfac.conv_geometry import ConvGeometry, extract_patches
from kfac.fisher_factors.base import FisherFactor, Sources


@typing.final
class ConvInputKroneckerFactor(FisherFactor):
    """PᵀP / (N·T) of the N·T patches P that the filter sees; Grosse & Martens (2016), §3."""

    def __init__(
        self,
        tensors: Sources,
        geometry: ConvGeometry,
        has_bias: bool,
        devices: tuple[str, ...],
        name: str,
    ) -> None:
        """Makes no variables and checks no shapes yet.

        Args:
          tensors: Images [N, height, width, channels] by [source][tower].
          geometry: The filter.
          has_bias: Whether each patch gets a trailing 1.
          devices: Where each tower's share is computed.
          name: Path of the variables below `kfac/`.
        """
        super().__init__(tensors, devices, name)
        self._geometry = geometry
        self._has_bias = has_bias

    @property
    def dimension(self) -> int:
        """Rows · columns · channels of the filter, plus 1 with a bias.

        Raises:
          ValueError: The images are not [N, height, width, channels] with static channels.
        """
        rows, columns = self._geometry.kernel
        return rows * columns * self._checked_size(rank=4) + int(self._has_bias)

    def rows(self, tensor: Tensor) -> Tensor:
        """Returns the patches [N·T, dimension], in (row, column, channel) order."""
        patches = extract_patches(tensor, self._geometry)
        return linalg.append_homogeneous(patches) if self._has_bias else patches


@typing.final
class ConvOutputKroneckerFactor(FisherFactor):
    """DᵀD / (N·T) of the gradients D at each location; Grosse & Martens (2016), §3."""

    @property
    def dimension(self) -> int:
        """Number of output channels.

        Raises:
          ValueError: The gradients are not [N, height, width, outputs] with static outputs.
        """
        return self._checked_size(rank=4)

    def rows(self, tensor: Tensor) -> Tensor:
        """Returns the gradients [N·T, outputs]."""
        return tf.reshape(tensor, [-1, self.dimension])
