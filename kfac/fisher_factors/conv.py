"""The statistics of convolutions: patches of the inputs, gradients at each location, diagonals.

Grosse & Martens (2016), §3, approximates a convolution's block of the Fisher matrix by T·A⊗G with

    A = E[p pᵀ],    G = E[g gᵀ],

where p is the patch that the filter sees at one of T locations, with a trailing 1 if there is a
bias, and g the gradient of the output at that location. The means are over examples and locations.
`kfac.patches.extraction` makes patches; `kfac.patches.second_moment` computes Σ p pᵀ without them,
where that is faster. Called by the blocks of convolutions, in `kfac.fisher_blocks.conv`.

References:
  Grosse & Martens (2016), arXiv:1602.01407, §3.
"""

import typing
import zlib
from typing import Any

import tensorflow as tf

from kfac._types import DType, Scalar, Tensor
from kfac.config import CurvatureConfig
from kfac.fisher_factors.base import FisherFactor, Moment, Sources
from kfac.fisher_factors.matrix import DiagonalFactor, MatrixFactor
from kfac.fisher_factors.uses import fold_uses
from kfac.linalg import tensor_ops
from kfac.linalg.shared import last_size, shared
from kfac.linalg.symmetric_packing import pack_symmetric
from kfac.patches.extraction import ConvGeometry, extract_patches
from kfac.patches.second_moment import may_skip_patches, moment_without_patches

PatchMask = tuple[float, ...]
"""A multiplier for each entry of a patch, in the patch's order."""


class Sampling(typing.NamedTuple):
    """The part of the data that the input factor uses; None means the config's choice.

    `inputs` is true to use only `CurvatureConfig.input_fraction` of the examples, `patches` to use
    only some of the patches.
    """

    inputs: bool | None = None
    patches: bool | None = None

    def or_default(self, config: CurvatureConfig) -> "Sampling":
        """Returns the same sampling, with the config's choices in place of None."""
        return Sampling(
            config.sub_sample_inputs if self.inputs is None else self.inputs,
            config.sub_sample_patches if self.patches is None else self.patches,
        )


def sample_rows(rows: Tensor, count: Scalar, name: str) -> Tensor:
    """Returns `count` rows [r, ...] drawn without replacement, or all rows if there are fewer.

    The draw depends on the data and the name only, so an interrupted and resumed run draws the
    same rows. Different names draw differently from the same data.
    """
    total = tf.reduce_sum(tf.cast(rows, tf.float32))
    seed = tf.stack([zlib.crc32(name.encode()) % 2**31, tf.bitcast(total, tf.int32)])
    order = tf.argsort(tf.random.stateless_uniform([tf.shape(rows)[0]], seed))
    return tf.gather(rows, order[:count])


def example_gradients(
    images: Tensor,
    gradients: Tensor,
    geometry: ConvGeometry,
    has_bias: bool,
    patch_mask: PatchMask | None,
) -> Tensor:
    """Returns Σ_locations p gᵀ of each example, its gradient as a matrix.

    Images [N, ..., channels], from which patches p are made, and gradients g [N, ..., outputs] have
    their channels last. With a bias each patch gets a trailing 1. A mask multiplies every patch.

    Returns:
      [N, entries · channels, outputs], with one more row for a bias.
    """
    patches = extract_patches(images, geometry)
    if patch_mask is not None:
        patches *= tf.constant(patch_mask, patches.dtype)
    batch = tf.shape(images)[0]
    p, g = (tf.reshape(t, [batch, -1, t.shape.as_list()[-1]]) for t in (patches, gradients))
    if has_bias:
        p = tensor_ops.append_homogeneous(p)
    return tf.matmul(p, g, transpose_a=True)


def as_images(tensors: Any, geometry: ConvGeometry, dtype: DType) -> Tensor:
    """Returns [uses · N, ..., channels] in a dtype, of images in any format."""
    images = fold_uses(tensors, geometry.rank + 1)
    if geometry.channels_first:
        images = tf.transpose(images, [0, *range(2, geometry.rank + 2), 1])
    return tf.cast(images, dtype)


class _OfFilter(FisherFactor):
    """A factor of a convolution whose filter has a geometry."""

    def __init__(
        self,
        tensors: Sources,
        geometry: ConvGeometry,
        devices: tuple[str, ...],
        name: str,
        config: CurvatureConfig | None = None,
    ) -> None:
        super().__init__(tensors, devices, name, config)
        self._geometry = geometry


@typing.final
class ConvInputKroneckerFactor(_OfFilter, MatrixFactor):
    """A = PᵀP / (N·T) of the N·T patches P that the filter sees.

    The arguments are those of `FisherFactor`, and:

      tensors: Images [N, ..., channels], or several uses as `uses.as_uses` returns them.
      geometry: The filter.
      has_bias: True if each patch gets a trailing 1.
      sampling: The part of the data to use; None means the config's choice.
      patch_mask: Multiplier of every patch; None means 1.
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
        super().__init__(tensors, geometry, devices, name, config)
        self._has_bias = has_bias
        self._sampling = (sampling or Sampling()).or_default(self._config)
        self._patch_mask = patch_mask

    @property
    def dimension(self) -> int:
        """Entries · channels of the filter, plus 1 with a bias."""
        channels = self._static_size(*self._geometry.image_axes)
        return self._geometry.entries * channels + int(self._has_bias)

    @property
    def can_predict_finite(self) -> bool:
        """True unless a mask multiplies the patches."""
        return self._patch_mask is None

    def _tower_moment(self, tensors: Any, packs: bool = False) -> Moment:
        images = as_images(tensors, self._geometry, self.dtype)
        if self._sampling.inputs:
            size = tf.cast(tf.shape(images)[0], tf.float64)
            keep = tf.cast(tf.math.ceil(size * self._config.input_fraction), tf.int32)
            images = sample_rows(images, keep, self.name)
        geometry, shape, way = self._geometry, images.shape.as_list(), self._config.conv_moment
        skips = not self._sampling.patches and may_skip_patches(shape, geometry, way)
        is_packed = packs and skips and self._patch_mask is None
        if skips:
            total, count = moment_without_patches(images, geometry, self._has_bias, is_packed)
        else:
            rows = tf.reshape(extract_patches(images, geometry), [-1, geometry.entries * shape[-1]])
            rows = self._sampled_patches(rows) if self._sampling.patches else rows
            rows = tensor_ops.append_homogeneous(rows) if self._has_bias else rows
            total, count = tensor_ops.outer_product(rows), tensor_ops.num_rows(rows)
        if self._patch_mask is not None:
            mask = tf.constant([*self._patch_mask, 1.0][: self.dimension], self.dtype)
            total = total * mask * mask[:, tf.newaxis]
        return Moment(self.packed(total) if packs and not is_packed else total, count)

    def _packed_tower_moment(self, tensors: Any) -> Moment:
        return self._tower_moment(tensors, packs=True)

    def _sampled_patches(self, rows: Tensor) -> Tensor:
        """Returns as many of the patches [r, d] as the config allows."""
        limit = self._config.patches_per_dimension * self.dimension
        return sample_rows(rows, min(limit, self._config.max_patches), self.name)


@typing.final
class ConvOutputKroneckerFactor(_OfFilter, MatrixFactor):
    """G = DᵀD / (N·T) of the gradients D at each location.

    The arguments are those of `FisherFactor`, and:

      tensors: Gradients [N, ..., outputs], in the formats of `ConvInputKroneckerFactor`.
      geometry: The filter.
    """

    can_predict_finite = True

    @property
    def dimension(self) -> int:
        """Number of output channels."""
        return self._static_size(*self._geometry.image_axes)

    def _tower_moment(self, tensors: Any, packs: bool = False) -> Moment:
        gradients = as_images(tensors, self._geometry, self.dtype)
        size, entries = self.dimension, gradients.shape.num_elements()
        count = tf.size(gradients) // size if entries is None else entries // size
        return Moment(_products(gradients, packs=packs), count)

    def _packed_tower_moment(self, tensors: Any) -> Moment:
        return self._tower_moment(tensors, packs=True)


@shared(sizes=last_size)
def _products(entries: Tensor, *, packs: bool) -> Tensor:
    """Returns DᵀD of the rows D of Tensors [..., size]; packed as `pack_symmetric` does."""
    rows = tf.reshape(entries, [-1, entries.shape.as_list()[-1]])
    total = tensor_ops.outer_product(rows)
    return pack_symmetric(total) if packs else total


@typing.final
class ConvDiagonalFactor(_OfFilter, DiagonalFactor):
    """Diagonal of the mean over examples of (Σ_locations p gᵀ)², flattened.

    The arguments are those of `FisherFactor`, and:

      tensors: (images [N, ..., channels], gradients [N, ..., outputs]).
      geometry: The filter.
      has_bias: True if each patch gets a trailing 1.
      patch_mask: Multiplier of every patch; None means 1.
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
        super().__init__(tensors, geometry, devices, name, config)
        self._has_bias = has_bias
        self._patch_mask = patch_mask

    @property
    def dimension(self) -> int:
        """(Entries · channels of the filter, plus 1 with a bias) · outputs."""
        axes = self._geometry.image_axes
        channels, outputs = (self._static_size(*axes, part=part) for part in (0, 1))
        return outputs * (self._geometry.entries * channels + int(self._has_bias))

    def _tower_moment(self, tensors: Any) -> Moment:
        images, gradients = (as_images(t, self._geometry, self.dtype) for t in tensors)
        args = self._geometry, self._has_bias, self._patch_mask
        squares = example_gradients(images, gradients, *args) ** 2
        return Moment(tf.reshape(tf.reduce_sum(squares, axis=0), [-1]), tf.shape(images)[0])


@typing.final
class DepthwiseConvDiagonalFactor(_OfFilter, DiagonalFactor):
    """Diagonal for a filter [h, w, channels, m] that maps each channel to m outputs of its own.

    Equal to the entries of `ConvDiagonalFactor` for the same filter written as an ordinary one,
    which has zeros where input and output channel do not match.

    The arguments are those of `FisherFactor`, and:

      tensors: (images [N, ..., channels], gradients [N, ..., channels · m]).
      geometry: The filter.
    """

    @property
    def dimension(self) -> int:
        """Entries of the filter · channels · m."""
        axes = self._geometry.image_axes
        channels, outputs = (self._static_size(*axes, part=part) for part in (0, 1))
        return self._geometry.entries * channels * outputs // channels

    def _tower_moment(self, tensors: Any) -> Moment:
        images, gradients = (as_images(t, self._geometry, self.dtype) for t in tensors)
        batch, channels = tf.shape(images)[0], images.shape.as_list()[-1]
        multiplier = gradients.shape.as_list()[-1] // channels
        patches = extract_patches(images, self._geometry)
        p = tf.reshape(patches, [batch, -1, self._geometry.entries, channels])
        g = tf.reshape(gradients, [batch, -1, channels, multiplier])
        per_example = tf.einsum("ntkc,ntcm->nkcm", p, g)
        return Moment(tf.reshape(tf.reduce_sum(per_example**2, axis=0), [-1]), batch)
