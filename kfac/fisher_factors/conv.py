"""The factors of convolutions: patches of the inputs, gradients at each location, and diagonals.

Called by the convolution blocks. The geometry of patches is in `kfac.patches.geometry`, how their
second moment is found without making them in `kfac.patches.second_moment`.

References:
  Grosse & Martens (2016), arXiv:1602.01407, §3.
"""

import abc
import typing
from typing import Any

import tensorflow as tf

from kfac._types import Tensor
from kfac.config import CurvatureConfig
from kfac.fisher_factors.base import FisherFactor, Moment, Sources
from kfac.fisher_factors.matrix import DiagonalFactor, MatrixFactor, RowFactor
from kfac.fisher_factors.subsampling import sample_rows
from kfac.fisher_factors.uses import fold_uses
from kfac.linalg import tensor_ops
from kfac.patches import second_moment
from kfac.patches.geometry import ConvGeometry, channels_last, extract_patches

PatchMask = tuple[float, ...]
"""A factor for each entry of a patch, in the patch's order."""


class Sampling(typing.NamedTuple):
    """Which part of the data the input factor is made from.

    Attributes:
      inputs: Whether to use only some of the examples, `CurvatureConfig.input_fraction` of them.
        None means what the config says.
      patches: Whether to use only some of the patches; likewise.
    """

    inputs: bool | None = None
    patches: bool | None = None

    def or_default(self, config: CurvatureConfig) -> "Sampling":
        """Returns the same with the config's choices in place of None."""
        return Sampling(
            config.sub_sample_inputs if self.inputs is None else self.inputs,
            config.sub_sample_patches if self.patches is None else self.patches,
        )


def example_gradients(
    images: Tensor,
    gradients: Tensor,
    geometry: ConvGeometry,
    has_bias: bool,
    patch_mask: PatchMask | None,
) -> Tensor:
    """Returns Σ_locations p gᵀ of each example, its gradient as a matrix.

    Args:
      images: [N, ..., channels], channels last, from which the patches p are made.
      gradients: g [N, ..., outputs], channels last.
      geometry: The filter.
      has_bias: Whether each patch gets a trailing 1.
      patch_mask: Multiplies every patch.

    Returns:
      [N, entries · channels, outputs], with one more row for a bias.
    """
    patches = extract_patches(images, geometry)
    if patch_mask is not None:
        patches *= tf.constant(patch_mask, patches.dtype)
    batch = tf.shape(images)[0]
    p, g = (tf.reshape(t, [batch, -1, tensor_ops.static_size(t, -1)]) for t in (patches, gradients))
    if has_bias:
        p = tf.pad(p, [[0, 0], [0, 0], [0, 1]], constant_values=1)
    return tf.matmul(p, g, transpose_a=True)


class _ImageFactor(FisherFactor, abc.ABC):
    """What factors of convolutions share: a geometry."""

    def __init__(
        self,
        tensors: Sources,
        geometry: ConvGeometry,
        devices: tuple[str, ...],
        name: str,
        config: CurvatureConfig | None = None,
    ) -> None:
        """Makes no variables and checks no shapes yet.

        Args:
          tensors: By [source][tower]; see the class.
          geometry: The filter.
          devices: Where each tower's share is computed.
          name: Path of the variables below `kfac/`.
          config: Dtypes and the like; None means the defaults.
        """
        super().__init__(tensors, devices, name, config)
        self._geometry = geometry

    def _channels(self, tensors: Any) -> int:
        """Returns the static number of channels of images, in uses or stacked."""
        rank = self._geometry.rank + 2
        is_stacked = isinstance(tensors, tuple) and tensors[0].shape.rank == rank + 1
        axis = 1 + is_stacked if self._geometry.channels_first else -1
        return self._checked_size(tensors, rank + is_stacked, axis)

    def _images(self, tensors: Any) -> Tensor:
        """Returns [uses · N, ..., channels] in the factor's dtype."""
        images = fold_uses(tensors, self._geometry.rank + 1)
        return tf.cast(channels_last(images, self._geometry), self.dtype)

    def _patch_size(self, tensors: Any) -> int:
        """Returns the number of entries of a patch of images."""
        entries = tf.TensorShape(self._geometry.kernel).num_elements()
        return int(entries) * self._channels(tensors)


@typing.final
class ConvInputKroneckerFactor(_ImageFactor, MatrixFactor):
    """PᵀP / (N·T) of the N·T patches P that the filter sees; Grosse & Martens (2016), §3.

    Made of images [N, ..., channels], or of several uses as `uses.as_uses` returns them.
    """

    def __init__(
        self,
        tensors: Sources,
        geometry: ConvGeometry,
        has_bias: bool,
        devices: tuple[str, ...],
        sampling: Sampling | None = None,
        patch_mask: PatchMask | None = None,
        *,
        name: str,
        config: CurvatureConfig | None = None,
    ) -> None:
        """Makes no variables and checks no shapes yet.

        Args:
          tensors: Images by [source][tower].
          geometry: The filter.
          has_bias: Whether each patch gets a trailing 1.
          devices: Where each tower's share is computed.
          sampling: Which part of the data to use; None means what the config says.
          patch_mask: Multiplies every patch.
          name: Path of the variables below `kfac/`.
          config: Dtypes and the like; None means the defaults.
        """
        super().__init__(tensors, geometry, devices, name, config)
        self._has_bias = has_bias
        self._sampling = (sampling or Sampling()).or_default(self._config)
        self._patch_mask = patch_mask

    @property
    def dimension(self) -> int:
        """Entries · channels of the filter, plus 1 with a bias.

        Raises:
          ValueError: The images are not as above, with static channels.
        """
        return self._patch_size(self._tensors[0][0]) + int(self._has_bias)

    def _tower_moment(self, tensors: Any) -> Moment:
        images = self._images(tensors)
        if self._sampling.inputs:
            size = tf.cast(tf.shape(images)[0], tf.float64)
            keep = tf.cast(tf.math.ceil(size * self._config.input_fraction), tf.int32)
            images = sample_rows(images, keep, self.name)
        moment = self._by_shifts(images) if self._uses_shifts(images) else self._by_patches(images)
        if self._patch_mask is None:
            return moment
        mask = tf.constant([*self._patch_mask, 1.0][: self.dimension], self.dtype)
        return moment._replace(total=moment.total * mask * mask[:, tf.newaxis])

    def _uses_shifts(self, images: Tensor) -> bool:
        wanted = self._config.conv_moment != "patches" and not self._sampling.patches
        if not (wanted and second_moment.applies(images, self._geometry)):
            return False
        forced = self._config.conv_moment == "shifts"
        return forced or second_moment.is_cheaper(images, self._geometry)

    def _by_patches(self, images: Tensor) -> Moment:
        patches = extract_patches(images, self._geometry)
        rows = tf.reshape(patches, [-1, self.dimension - int(self._has_bias)])
        if self._sampling.patches:
            limit = self._config.patches_per_dimension * self.dimension
            rows = sample_rows(rows, min(limit, self._config.max_patches), self.name)
        if self._has_bias:
            rows = tensor_ops.append_homogeneous(rows)
        return Moment(tensor_ops.outer_product(rows), tf.shape(rows)[0])

    def _by_shifts(self, images: Tensor) -> Moment:
        total, values = second_moment.patch_sums(images, self._geometry)
        count = tf.shape(images)[0] * second_moment.locations(images, self._geometry)
        if self._has_bias:
            last = tf.concat([values, [tf.cast(count, self.dtype)]], axis=0)
            total = tf.concat([total, values[:, tf.newaxis]], axis=1)
            total = tf.concat([total, last[tf.newaxis]], axis=0)
        return Moment(total, count)


@typing.final
class ConvOutputKroneckerFactor(_ImageFactor, RowFactor):
    """DᵀD / (N·T) of the gradients D at each location; Grosse & Martens (2016), §3.

    Made of gradients [N, ..., outputs], in the formats of `ConvInputKroneckerFactor`.
    """

    @property
    def dimension(self) -> int:
        """Number of output channels.

        Raises:
          ValueError: The gradients are not as above, with static outputs.
        """
        return self._channels(self._tensors[0][0])

    def rows(self, tensors: Any) -> Tensor:
        """Returns the gradients [N·T, outputs]."""
        return tf.reshape(self._images(tensors), [-1, self.dimension])


@typing.final
class ConvDiagonalFactor(_ImageFactor, DiagonalFactor):
    """Diagonal of the mean over examples of (Σ_locations p gᵀ)², flattened.

    Made of (images [N, ..., channels], gradients [N, ..., outputs]).
    """

    def __init__(
        self,
        tensors: Sources,
        geometry: ConvGeometry,
        has_bias: bool,
        devices: tuple[str, ...],
        patch_mask: PatchMask | None = None,
        *,
        name: str,
        config: CurvatureConfig | None = None,
    ) -> None:
        """Makes no variables and checks no shapes yet.

        Args:
          tensors: (images, gradients) by [source][tower].
          geometry: The filter.
          has_bias: Whether each patch gets a trailing 1.
          devices: Where each tower's share is computed.
          patch_mask: Multiplies every patch.
          name: Path of the variables below `kfac/`.
          config: Dtypes and the like; None means the defaults.
        """
        super().__init__(tensors, geometry, devices, name, config)
        self._has_bias = has_bias
        self._patch_mask = patch_mask

    @property
    def dimension(self) -> int:
        """(Entries · channels of the filter, plus 1 with a bias) · outputs.

        Raises:
          ValueError: The tensors are not as above, with static channels.
        """
        images, gradients = self._tensors[0][0]
        return self._channels(gradients) * (self._patch_size(images) + int(self._has_bias))

    def _tower_moment(self, tensors: Any) -> Moment:
        images, gradients = (self._images(t) for t in tensors)
        args = self._geometry, self._has_bias, self._patch_mask
        squares = example_gradients(images, gradients, *args) ** 2
        return Moment(tf.reshape(tf.reduce_sum(squares, axis=0), [-1]), tf.shape(images)[0])


@typing.final
class DepthwiseConvDiagonalFactor(_ImageFactor, DiagonalFactor):
    """Diagonal for a filter [h, w, channels, m] that maps each channel to m outputs of its own.

    Made of (images [N, ..., channels], gradients [N, ..., channels · m]). Equal to the part of
    `ConvDiagonalFactor` that belongs to the same filter written as an ordinary one, which is zero
    where input and output channel do not match.
    """

    @property
    def dimension(self) -> int:
        """Entries of the filter · channels · m.

        Raises:
          ValueError: The tensors are not as above, with static channels.
        """
        images, gradients = self._tensors[0][0]
        return self._patch_size(images) * self._channels(gradients) // self._channels(images)

    def _tower_moment(self, tensors: Any) -> Moment:
        images, gradients = (self._images(t) for t in tensors)
        batch, channels = tf.shape(images)[0], tensor_ops.static_size(images, -1)
        multiplier = tensor_ops.static_size(gradients, -1) // channels
        entries = tf.TensorShape(self._geometry.kernel).num_elements()
        patches = extract_patches(images, self._geometry)
        p = tf.reshape(patches, [batch, -1, entries, channels])
        g = tf.reshape(gradients, [batch, -1, channels, multiplier])
        per_example = tf.einsum("ntkc,ntcm->nkcm", p, g)
        return Moment(tf.reshape(tf.reduce_sum(per_example**2, axis=0), [-1]), batch)
