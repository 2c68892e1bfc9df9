"""The statistics of dense layers s = Wᵀā: second moments of inputs and of output gradients.

Martens & Grosse (2015), §3, approximates a dense layer's block of the Fisher matrix by A⊗G with

    A = E[ā āᵀ],    G = E[g gᵀ],

where ā is the layer's input, with a trailing 1 if the layer has a bias, and g the gradient of its
output s. This module estimates them as means over the rows of a batch, as matrices or diagonals. It
also has the diagonal of the exact block. Called by the blocks of dense layers, in
`kfac.fisher_blocks.dense`.

References:
  Martens & Grosse (2015), arXiv:1503.05671, §3.
"""

import typing
from typing import Any

import tensorflow as tf

from kfac._types import DType, Tensor
from kfac.config import CurvatureConfig
from kfac.fisher_factors.base import FisherFactor, Moment, Sources
from kfac.fisher_factors.matrix import DiagonalFactor, MatrixFactor
from kfac.fisher_factors.uses import fold_uses
from kfac.linalg.tensor_ops import append_homogeneous, num_rows, outer_product


class _OfDenseLayer(FisherFactor):
    """A factor of a dense layer, which may have a bias."""

    def __init__(
        self,
        tensors: Sources,
        has_bias: bool,
        devices: tuple[str, ...],
        name: str,
        config: CurvatureConfig | None = None,
    ) -> None:
        super().__init__(tensors, devices, name, config)
        self._has_bias = has_bias


@typing.final
class FullyConnectedKroneckerFactor(_OfDenseLayer, MatrixFactor):
    """XᵀX / rows of tensors X [rows, n]: A of a layer's inputs, or G of its output gradients.

    The arguments are those of `FisherFactor`, and:

      tensors: X, or its uses; see `kfac.fisher_factors.uses.as_uses`.
      has_bias: True if X gets a column of ones.
    """

    can_predict_finite = True

    @property
    def dimension(self) -> int:
        """n, plus 1 with a bias."""
        return self._static_size(2) + int(self._has_bias)

    def _tower_moment(self, tensors: Any) -> Moment:
        rows = fold_uses(tensors, 1)
        rows = append_homogeneous(rows) if self._has_bias else rows
        return Moment(outer_product(tf.cast(rows, self.dtype)), num_rows(rows))


@typing.final
class DiagonalKroneckerFactor(DiagonalFactor):
    """The diagonal of the second moment of vectors, or of one-hot vectors given as numbers.

    For an embedding, ids [rows, ...] stand for rows that are the sums of the one-hot vectors of
    their ids. With one id per row the second moment is diagonal, and its diagonal is the share of
    rows with each id. With several ids per row the diagonal is approximated by the count of each
    id, divided by the number of rows.

    The arguments are those of `FisherFactor`, and:

      tensors: X [rows, n], or integer ids [rows] or [rows, k]; or a tuple of these, one per use.
      one_hot_depth: Number of different ids, or None if the tensors are X.
      has_bias: True if a 1 is appended to X.
      dtype: Dtype of X, also if X is given as ids.
    """

    def __init__(
        self,
        tensors: Sources,
        one_hot_depth: int | None,
        has_bias: bool,
        dtype: DType,
        devices: tuple[str, ...],
        name: str,
        config: CurvatureConfig | None = None,
    ) -> None:
        super().__init__(tensors, devices, name, config, dtype)
        self._one_hot_depth = one_hot_depth
        self._has_bias = has_bias

    @property
    def dimension(self) -> int:
        """Length n of X or the number of ids, plus 1 with a bias."""
        size = self._one_hot_depth or self._static_size(2)
        return size + int(self._has_bias)

    def _tower_moment(self, tensors: Any) -> Moment:
        if self._one_hot_depth:
            total, rows = self._counted_ids(tf.nest.flatten(tensors))
        else:
            x = tf.cast(fold_uses(tensors, 1), self.dtype)
            total, rows = tf.reduce_sum(tf.square(x), axis=0), tf.shape(x)[0]
        if self._has_bias:
            total = tf.concat([total, tf.cast(rows, self.dtype)[tf.newaxis]], axis=0)
        return Moment(total, rows)

    def _counted_ids(self, tensors: list[Tensor]) -> tuple[Tensor, Tensor]:
        """Returns the count of each id [one_hot_depth], and the number of rows."""
        ids = tf.concat([tf.reshape(t, [-1]) for t in tensors], axis=0)
        ones = tf.ones(tf.shape(ids), self.dtype)
        # The embedding itself reports an id out of range: as an error on a CPU, not at all on a
        # GPU. This factor ignores such an id.
        total = tf.math.unsorted_segment_sum(ones, ids, self._one_hot_depth)
        return total, tf.add_n([tf.shape(t)[0] for t in tensors])


@typing.final
class FullyConnectedDiagonalFactor(_OfDenseLayer, DiagonalFactor):
    """The diagonal of E[(ā gᵀ)²], flattened: (ā²)ᵀ(g²)/N.

    The arguments are those of `FisherFactor`, and:

      tensors: (a [N, inputs], g [N, outputs]), inputs and output gradients.
      has_bias: True if inputs get a column of ones.
    """

    @property
    def dimension(self) -> int:
        """(inputs, plus 1 with a bias) · outputs."""
        inputs = self._static_size(2, part=0) + int(self._has_bias)
        return inputs * self._static_size(2, part=1)

    def _tower_moment(self, tensors: Any) -> Moment:
        a, g = (tf.cast(t, self.dtype) for t in tensors)
        a = append_homogeneous(a) if self._has_bias else a
        total = tf.matmul(a**2, g**2, transpose_a=True)
        return Moment(tf.reshape(total, [-1]), tf.shape(a)[0])
