"""The statistics of layers whose weight is shared along the positions of an example.

A layer s_nr = Wᵀ ā_nr is applied at R positions r of each of N examples n, with a trailing 1 in ā
if there is a bias; g_nr is the gradient of the example's loss with respect to s_nr. Eschenhagen et
al. (2023), §3, approximate the block of W by A⊗G in two ways:

  expand   A = Σ_nr ā āᵀ / (N·R)               G = Σ_nr g gᵀ / N
  reduce   A = Σ_n (mean_r ā)(mean_r ā)ᵀ / N   G = Σ_n (Σ_r g)(Σ_r g)ᵀ / N

A mask says which positions count: then sums and means of ā are over these, with their number in
place of N·R, and with that of the examples that have one in place of N. Gradients need no mask: a
position that the loss ignores has a gradient of zero, which adds nothing. Called by the blocks of
`kfac.fisher_blocks.weight_sharing`.

References:
  Eschenhagen, Immer, Turner, Schneider & Hennig (2023), arXiv:2311.00636, §3.
"""

import typing
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from kfac._types import DType, Scalar, Tensor
from kfac.config import CurvatureConfig
from kfac.fisher_factors.base import FisherFactor, Moment, Sources
from kfac.fisher_factors.conv import as_images
from kfac.fisher_factors.matrix import DiagonalFactor, MatrixFactor
from kfac.linalg.tensor_ops import append_homogeneous, num_rows, outer_product
from kfac.patches.extraction import ConvGeometry, extract_patches


class _OfSharedWeight(FisherFactor):
    """A factor of a weight that is shared along positions; `reduces` is true for "reduce"."""

    def __init__(
        self,
        tensors: Sources,
        reduces: bool,
        geometry: ConvGeometry | None,
        devices: tuple[str, ...],
        name: str,
        config: CurvatureConfig | None = None,
    ) -> None:
        super().__init__(tensors, devices, name, config)
        self._reduces = reduces
        self._geometry = geometry

    def _last_size(self) -> int:
        """Returns the static number of features, or of channels."""
        rank, axis = (2, -1) if self._geometry is None else self._geometry.image_axes
        return self._static_size(rank, axis, part=0)

    def _channels_last(self, tensors: Sequence[Tensor]) -> list[Tensor]:
        if self._geometry is None:
            return [tf.cast(tensor, self.dtype) for tensor in tensors]
        return [as_images(tensor, self._geometry, self.dtype) for tensor in tensors]


@typing.final
class SharedInputFactor(_OfSharedWeight, MatrixFactor):
    """A of a dense layer, or of a convolution, whose positions are its locations.

    The arguments are those of `FisherFactor`, and these.

    Args:
      tensors: (inputs, masks): a tuple of inputs [N, ..., n], one of each place where the layer is
        applied; and as many masks [N, ...], or none.
      has_bias: True if inputs get a trailing 1.
      reduces: True for "reduce".
      geometry: The filter of a convolution, whose inputs are images; None for a dense layer.
    """

    def __init__(
        self,
        tensors: Sources,
        has_bias: bool,
        reduces: bool,
        geometry: ConvGeometry | None,
        devices: tuple[str, ...],
        name: str,
        config: CurvatureConfig | None = None,
    ) -> None:
        super().__init__(tensors, reduces, geometry, devices, name, config)
        self._has_bias = has_bias

    @property
    def dimension(self) -> int:
        """n, or entries · channels of the filter; plus 1 with a bias."""
        entries = 1 if self._geometry is None else self._geometry.entries
        return entries * self._last_size() + int(self._has_bias)

    def _tower_moment(self, tensors: Any) -> Moment:
        given, masks = tensors
        places = self._channels_last(given)
        if self._geometry is not None:
            places = [extract_patches(images, self._geometry) for images in places]
        x = joined(places, self.dimension - int(self._has_bias), examples_of(places))
        x = append_homogeneous(x) if self._has_bias else x
        mask = joined_masks(masks)
        if mask is not None:
            x = tf.where(mask[..., tf.newaxis], x, tf.zeros_like(x))
        if not self._reduces:
            rows = tf.reshape(x, [-1, self.dimension])
            return Moment(outer_product(rows), num_rows(rows) if mask is None else _count(mask))
        if mask is None:
            return Moment(outer_product(tf.reduce_mean(x, axis=1)), num_rows(x))
        sums, positions = tf.reduce_sum(x, axis=1), tf.math.count_nonzero(mask, 1, True, self.dtype)
        means = tf.math.divide_no_nan(sums, positions)
        return Moment(outer_product(means), _count(tf.reduce_any(mask, axis=1)))


@typing.final
class SharedGradientFactor(_OfSharedWeight, MatrixFactor):
    """G of a dense layer or a convolution.

    The arguments are those of `SharedInputFactor`, without a bias, and these.

    Args:
      tensors: (gradients, inputs): tuples of gradients [N, ..., n] or [N·R, n], and of the inputs,
        which tell N.
      axes: Number of axes at the end of gradients whose entries are the n outputs.
    """

    def __init__(
        self,
        tensors: Sources,
        reduces: bool,
        geometry: ConvGeometry | None,
        axes: int,
        devices: tuple[str, ...],
        name: str,
        config: CurvatureConfig | None = None,
    ) -> None:
        super().__init__(tensors, reduces, geometry, devices, name, config)
        self._axes = axes

    @property
    def dimension(self) -> int:
        """Number of outputs, n."""
        size = self._last_size()
        for axis in range(2, self._axes + 1):
            size *= self._static_size(self._axes + 1, -axis, part=0)
        return size

    def _tower_moment(self, tensors: Any) -> Moment:
        gradients, inputs = tensors
        examples = examples_of(inputs)
        d = joined(self._channels_last(gradients), self.dimension, examples)
        rows = tf.reduce_sum(d, axis=1) if self._reduces else tf.reshape(d, [-1, self.dimension])
        return Moment(outer_product(rows), examples[0])


@typing.final
class SharedIdsFactor(DiagonalFactor):
    """The diagonal of A of an embedding, whose inputs are one-hot vectors given as ids.

    With "expand" A is diagonal, with the share of each id in all positions. With "reduce" an
    example's mean has the share of each id in its own positions, and the diagonal of A the mean
    square of that; its other entries are left out.

    The arguments are those of `FisherFactor`, and these.

    Args:
      tensors: (ids, masks): tuples of integers [N, ...], and of as many masks, or none.
      depth: Number of different ids.
      reduces: True for "reduce".
      dtype: Dtype of the table.
    """

    def __init__(
        self,
        tensors: Sources,
        depth: int,
        reduces: bool,
        dtype: DType,
        devices: tuple[str, ...],
        name: str,
        config: CurvatureConfig | None = None,
    ) -> None:
        super().__init__(tensors, devices, name, config, dtype)
        self._depth = depth
        self._reduces = reduces

    @property
    def dimension(self) -> int:
        """Number of ids."""
        return self._depth

    def _tower_moment(self, tensors: Any) -> Moment:
        given, masks = tensors
        ids = joined([t[..., tf.newaxis] for t in given], 1, examples_of(given))[..., 0]
        mask = joined_masks(masks)
        mask = tf.ones_like(ids, tf.bool) if mask is None else mask
        weights, count = tf.cast(mask, self.dtype), _count(mask)
        if self._reduces:
            shares = tf.math.divide_no_nan(weights, tf.reduce_sum(weights, axis=1, keepdims=True))
            is_same = tf.cast(tf.equal(ids[:, :, tf.newaxis], ids[:, tf.newaxis]), self.dtype)
            weights = shares * tf.linalg.matvec(is_same, shares)
            count = _count(tf.reduce_any(mask, axis=1))
        flat = tf.reshape(weights, [-1]), tf.reshape(ids, [-1])
        # An id out of range, which the embedding itself reports, is ignored.
        return Moment(tf.math.unsorted_segment_sum(*flat, self._depth), count)


def examples_of(places: Sequence[Tensor]) -> list[Scalar]:
    """Returns N of tensors [N, ...], an int or an int Tensor [] each."""
    return [num_rows(tensor) for tensor in places]


def joined(places: Sequence[Tensor], size: int, examples: Sequence[Scalar]) -> Tensor:
    """Returns [N, R, size], the positions of all places, of tensors with N · R · size entries."""
    parts = [
        tf.reshape(tensor, [number, -1, size])
        for tensor, number in zip(places, examples, strict=True)
    ]
    return tf.concat(parts, axis=1) if len(parts) > 1 else parts[0]


def joined_masks(masks: Sequence[Tensor]) -> Tensor | None:
    """Returns bool [N, R], true for positions that count, of masks [N, ...]; None of no mask."""
    if not masks:
        return None
    parts = [tf.cast(mask, tf.bool)[..., tf.newaxis] for mask in masks]
    return joined(parts, 1, examples_of(masks))[..., 0]


def _count(mask: Tensor) -> Tensor:
    return tf.math.count_nonzero(mask, dtype=tf.int32)
